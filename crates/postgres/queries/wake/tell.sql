-- Wakes other processes, if some idle: their shared lock keeps this one from being had.
select pg_notify($2, $3) where not pg_try_advisory_xact_lock($1)
