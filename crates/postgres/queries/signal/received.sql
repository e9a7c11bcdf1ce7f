-- How many signals executions have received.
select
    i.partition_key, i.execution_id,
    coalesce((
        select max(s.number) from ff_signal s
        where s.partition_key = i.partition_key and s.execution_id = i.execution_id
    ) + 1, 0) as received
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
