-- Locks and loads the groups that the ends of some executions ($3) will move, in flows that are
-- locked already: one that somebody else holds is passed over. They are looked for one by one, in
-- the order of locks, whatever the plan was made for.
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
)
select
    g.partition_key, g.flow_id, g.downstream_id, g.policy, g.round, g.staged, g.total,
    g.satisfied, g.failed, g.skipped, g.k_target, g.state, g.fired_at_ms,
    g.cancel_siblings_pending, g.cancel_siblings_reason, g.cancel_siblings_round
from (select w.* from waiting w order by w.partition_key, w.flow_id, w.downstream_id) w
cross join lateral (
    select g.* from ff_edge_group g
    where g.partition_key = w.partition_key and g.flow_id = w.flow_id
        and g.downstream_id = w.downstream_id
    for no key update of g
) g
