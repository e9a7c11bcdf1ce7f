-- The first members of each flow, by id, no more than $3.
select x.partition_key, x.execution_id, i.flow_id
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
cross join lateral (
    select x.partition_key, x.execution_id from ff_exec_core x
    where x.partition_key = i.partition_key and x.flow_id = i.flow_id
    order by x.execution_id
    limit $3::bigint
) x
