-- Locks and loads the groups that the ends of some executions ($3) will move, in flows that are
-- locked already: one that somebody else holds is passed over.
with held as materialized (
    select f.partition_key, f.flow_id from ff_flow_core f
    where (f.partition_key, f.flow_id) in (
        select i.partition_key, i.flow_id
        from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
    )
    order by f.partition_key, f.flow_id
    for no key update of f skip locked
)
select
    g.partition_key, g.flow_id, g.downstream_id, g.policy, g.round, g.staged, g.total,
    g.satisfied, g.failed, g.skipped, g.k_target, g.state, g.fired_at_ms,
    g.cancel_siblings_pending, g.cancel_siblings_reason, g.cancel_siblings_round
from held h
join ff_edge_group g on g.partition_key = h.partition_key and g.flow_id = h.flow_id
where g.downstream_id in (
    select e.downstream_id
    from unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, upstream_id)
    join ff_edge e
        on e.partition_key = i.partition_key and e.flow_id = i.flow_id
        and e.upstream_id = i.upstream_id
    where e.state = 'unsatisfied'
)
order by g.partition_key, g.flow_id, g.downstream_id
for no key update of g
