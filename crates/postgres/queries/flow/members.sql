-- The members of flows that have not ended.
select x.partition_key, x.execution_id, i.flow_id, x.phase
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
cross join lateral (
    select x.partition_key, x.execution_id, x.phase from ff_exec_core x
    where x.partition_key = i.partition_key and x.flow_id = i.flow_id and x.phase <> 'terminal'
    -- Planned while there were few members, it would gather those of all flows first.
    offset 0
) x
