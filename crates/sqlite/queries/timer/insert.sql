-- Files something for later.
insert into ff_timer (kind, due_ms, partition_key, execution_id, queue, rank, turn_ms)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
