-- Says that this process idles: others tell it when there is something to do.
select pg_advisory_lock_shared($1)
