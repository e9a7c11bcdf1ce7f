-- Says that this process no longer idles.
select pg_advisory_unlock_shared($1)
