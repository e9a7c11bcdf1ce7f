-- The inputs of those that wait for some executions ($3) in flows that are locked already, and that
-- nobody can take: they may be started in the transaction that lets them go.
with held as materialized (
    select f.partition_key, f.flow_id from ff_flow_core f
    where (f.partition_key, f.flow_id) in (
        select i.partition_key, i.flow_id
        from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
    )
    order by f.partition_key, f.flow_id
    for no key update of f skip locked
), gated as (
    select x.partition_key, x.execution_id, x.input_encoding, x.input
    from held h
    join unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, upstream_id)
        on i.partition_key = h.partition_key and i.flow_id = h.flow_id
    join ff_edge e
        on e.partition_key = i.partition_key and e.flow_id = i.flow_id
        and e.upstream_id = i.upstream_id
    join ff_exec_core x
        on x.partition_key = e.partition_key and x.execution_id = e.downstream_id
    where e.state = 'unsatisfied' and x.gated
)
select
    g.partition_key, g.execution_id, 'input' as kind, 0 as attempt_index, p.encoding, p.bytes
from gated g
join ff_payload p
    on p.partition_key = g.partition_key and p.execution_id = g.execution_id
    and p.kind = 'input' and p.attempt_index = 0
union
select g.partition_key, g.execution_id, 'input', 0, g.input_encoding, g.input
from gated g where g.input is not null
