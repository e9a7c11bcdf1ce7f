-- What lies behind executions along edges of their flows that are impossible, nearest first, no more
-- than asked for ($4) behind each.
select i.partition_key, i.execution_id, i.flow_id, array(
    with recursive behind (execution_id) as (
        select e.downstream_id from ff_edge e
        where e.partition_key = i.partition_key and e.flow_id = i.flow_id
            and e.upstream_id = i.execution_id and e.state = 'impossible'
        union
        select e.downstream_id from behind b
        cross join lateral (
            select e.downstream_id from ff_edge e
            where e.partition_key = i.partition_key and e.flow_id = i.flow_id
                and e.upstream_id = b.execution_id and e.state = 'impossible'
            -- Looks for each by the index, where it would compare all edges of the flow.
            offset 0
        ) e
    )
    select b.execution_id from behind b limit $4::bigint
) as behind
from unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, execution_id)
