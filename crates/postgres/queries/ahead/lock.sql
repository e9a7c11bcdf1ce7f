-- Locks executions ($4, $5) together with those that wait for some ($3) in flows that are locked
-- already, one by one, in the order of their keys.
with held as materialized (
    select f.partition_key, f.flow_id from ff_flow_core f
    where (f.partition_key, f.flow_id) in (
        select i.partition_key, i.flow_id
        from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
    )
    order by f.partition_key, f.flow_id
    for no key update of f skip locked
), wanted as materialized (
    select i.partition_key, i.execution_id
    from unnest($4::smallint[], $5::uuid[]) as i (partition_key, execution_id)
    union
    select e.partition_key, e.downstream_id
    from unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, upstream_id)
    join held h on h.partition_key = i.partition_key and h.flow_id = i.flow_id
    cross join lateral (
        select e.partition_key, e.flow_id, e.downstream_id from ff_edge e
        where e.partition_key = i.partition_key and e.flow_id = i.flow_id
            and e.upstream_id = i.upstream_id and e.state = 'unsatisfied'
        offset 0
    ) e
)
select 1
from (select w.* from wanted w order by w.partition_key, w.execution_id) w
cross join lateral (
    select 1 from ff_exec_core x
    where x.partition_key = w.partition_key and x.execution_id = w.execution_id
    for no key update of x
) x
