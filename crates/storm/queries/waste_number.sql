-- Takes a number for a transaction that aborts.
begin;
select pg_current_xact_id();
rollback
