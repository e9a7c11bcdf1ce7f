-- The keys that sign tokens, in the order in which they were installed.
select kid, secret, created_at_ms, expires_at_ms from ff_signing_key
order by rowid
