-- Wakes other processes, some of which idle for certain. Nobody waits for it to be flushed.
select pg_notify($1, $2), set_config('synchronous_commit', 'off', true)
