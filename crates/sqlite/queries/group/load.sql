-- Loads one group.
select
    partition_key, flow_id, downstream_id, policy, round, staged, total, satisfied, failed,
    skipped, k_target, state, fired_at_ms, cancel_siblings_pending, cancel_siblings_reason,
    cancel_siblings_round
from ff_edge_group
where partition_key = ?1 and flow_id = ?2 and downstream_id = ?3
