-- When the next key is forgotten.
select min(expires_at_ms) from ff_idempotency where expires_at_ms > ?1
