-- Inserts or updates a group.
insert into ff_edge_group (
    partition_key, flow_id, downstream_id, policy, round, staged, total, satisfied, failed,
    skipped, k_target, state, fired_at_ms, cancel_siblings_pending, cancel_siblings_reason,
    cancel_siblings_round
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)
on conflict (partition_key, flow_id, downstream_id) do update set
    policy = excluded.policy, round = excluded.round, staged = excluded.staged,
    total = excluded.total, satisfied = excluded.satisfied, failed = excluded.failed,
    skipped = excluded.skipped, k_target = excluded.k_target, state = excluded.state,
    fired_at_ms = excluded.fired_at_ms,
    cancel_siblings_pending = excluded.cancel_siblings_pending,
    cancel_siblings_reason = excluded.cancel_siblings_reason,
    cancel_siblings_round = excluded.cancel_siblings_round
