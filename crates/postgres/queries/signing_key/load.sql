-- All keys, in the order in which they were installed; the current one has no end.
select kid, secret, created_at_ms, expires_at_ms from ff_signing_key order by turn
