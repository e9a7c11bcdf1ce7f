-- Of some members, those whose end is still to be told.
select d.partition_key, d.execution_id, d.flow_id, d.at_ms
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
join ff_dispatch d on d.partition_key = i.partition_key and d.execution_id = i.execution_id
