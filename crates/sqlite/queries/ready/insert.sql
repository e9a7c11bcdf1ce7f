-- Makes an execution claimable.
insert into ff_ready (queue, rank, turn_ms, partition_key, execution_id)
values (?1, ?2, ?3, ?4, ?5)
