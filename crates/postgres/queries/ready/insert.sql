-- Makes executions claimable.
insert into ff_ready (
    queue, rank, turn_ms, partition_key, execution_id
)
select i.queue, i.rank, i.turn_ms, i.partition_key, i.execution_id
from unnest($1::ff_ready_row[]) i
