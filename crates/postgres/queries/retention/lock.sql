-- Locks the batches that are to be removed at some times ($1), before whoever took an execution out of
-- one looks whether that was the last: of two who do so at once, the second waits, and then sees what the
-- first did, because transactions that write are READ COMMITTED.
select 1 from ff_retention
where due_ms = any($1::bigint[])
order by due_ms, ctid
for update
