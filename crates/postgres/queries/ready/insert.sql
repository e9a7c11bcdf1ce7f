-- Makes executions claimable.
insert into ff_ready (
    queue, rank, turn_ms, partition_key, execution_id
)
select * from unnest($1::ff_ready_row[])
