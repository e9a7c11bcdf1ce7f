-- Forgets a key.
delete from ff_idempotency where namespace = ?1 and key = ?2
