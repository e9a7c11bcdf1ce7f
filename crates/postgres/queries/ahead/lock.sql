-- Locks executions ($4, $5) together with those that wait for some ($3) in flows that are locked
-- already, in the order of their keys.
with held as materialized (
    select f.partition_key, f.flow_id from ff_flow_core f
    where (f.partition_key, f.flow_id) in (
        select i.partition_key, i.flow_id
        from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
    )
    order by f.partition_key, f.flow_id
    for no key update of f skip locked
), wanted as (
    select i.partition_key, i.execution_id
    from unnest($4::smallint[], $5::uuid[]) as i (partition_key, execution_id)
    union
    select e.partition_key, e.downstream_id
    from held h
    join unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, upstream_id)
        on i.partition_key = h.partition_key and i.flow_id = h.flow_id
    join ff_edge e
        on e.partition_key = i.partition_key and e.flow_id = i.flow_id
        and e.upstream_id = i.upstream_id
    where e.state = 'unsatisfied'
)
select 1 from ff_exec_core x
join wanted w on x.partition_key = w.partition_key and x.execution_id = w.execution_id
order by x.partition_key, x.execution_id
for no key update of x
