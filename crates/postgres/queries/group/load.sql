-- Loads groups.
select
    g.partition_key, g.flow_id, g.downstream_id, g.policy, g.round, g.staged, g.total,
    g.satisfied, g.failed, g.skipped, g.k_target, g.state, g.fired_at_ms,
    g.cancel_siblings_pending, g.cancel_siblings_reason, g.cancel_siblings_round
from unnest($1::smallint[], $2::uuid[], $3::uuid[])
    as i (partition_key, flow_id, downstream_id)
join ff_edge_group g
    on g.partition_key = i.partition_key and g.flow_id = i.flow_id
    and g.downstream_id = i.downstream_id
