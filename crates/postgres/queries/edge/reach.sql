-- What can be reached from executions along the edges of their flows, whatever their state, each
-- itself left out unless they form a circle. No more than asked for ($4) is looked at from each.
select i.partition_key, i.execution_id, i.flow_id, array(
    with recursive reach (execution_id) as (
        select e.downstream_id from ff_edge e
        where e.partition_key = i.partition_key and e.flow_id = i.flow_id
            and e.upstream_id = i.execution_id
        union
        select e.downstream_id from reach r
        cross join lateral (
            select e.downstream_id from ff_edge e
            where e.partition_key = i.partition_key and e.flow_id = i.flow_id
                and e.upstream_id = r.execution_id
            -- Looks for each by the index, where it would compare all edges of the flow.
            offset 0
        ) e
    )
    select r.execution_id from reach r limit $4::bigint
) as reached
from unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, execution_id)
