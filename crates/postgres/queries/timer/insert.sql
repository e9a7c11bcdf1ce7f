-- Files things for later.
insert into ff_timer (
    kind, due_ms, partition_key, execution_id, queue, rank, turn_ms
)
select * from unnest($1::ff_timer_row[])
