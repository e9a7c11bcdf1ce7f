-- When the next waitpoint expires.
select min(expires_at_ms) from ff_waitpoint where state = 'pending' and expires_at_ms > ?1
