-- The first members whose end each flow owes, by id, no more than $3.
select m.partition_key, m.execution_id, i.flow_id
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
cross join lateral (
    select m.partition_key, m.execution_id from ff_cancel_backlog_member m
    where m.partition_key = i.partition_key and m.flow_id = i.flow_id
    order by m.execution_id
    limit $3::bigint
) m
