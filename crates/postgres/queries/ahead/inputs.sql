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
), waiting as materialized (
    select distinct e.partition_key, e.flow_id, e.downstream_id
    from unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, upstream_id)
    join held h on h.partition_key = i.partition_key and h.flow_id = i.flow_id
    cross join lateral (
        select e.partition_key, e.flow_id, e.downstream_id from ff_edge e
        where e.partition_key = i.partition_key and e.flow_id = i.flow_id
            and e.upstream_id = i.upstream_id and e.state = 'unsatisfied'
        offset 0
    ) e
), gated as materialized (
    select x.partition_key, x.execution_id, x.input_encoding, x.input
    from waiting w
    cross join lateral (
        select x.partition_key, x.execution_id, x.input_encoding, x.input from ff_exec_core x
        where x.partition_key = w.partition_key and x.execution_id = w.downstream_id and x.gated
        offset 0
    ) x
)
select
    g.partition_key, g.execution_id, 'input' as kind, 0 as attempt_index, p.encoding, p.bytes
from gated g
cross join lateral (
    select p.encoding, p.bytes from ff_payload p
    where p.partition_key = g.partition_key and p.execution_id = g.execution_id
        and p.kind = 'input' and p.attempt_index = 0
    offset 0
) p
union all
select g.partition_key, g.execution_id, 'input', 0, g.input_encoding, g.input
from gated g where g.input is not null
