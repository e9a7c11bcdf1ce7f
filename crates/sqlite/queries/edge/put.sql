-- Inserts an edge, or changes its state.
insert into ff_edge (
    partition_key, flow_id, edge_id, upstream_id, downstream_id, kind, name, data_passing_ref,
    round, created_at_ms, state, applied_at_ms, resolved_at_ms
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
on conflict (partition_key, flow_id, edge_id) do update set
    state = excluded.state, applied_at_ms = excluded.applied_at_ms,
    resolved_at_ms = excluded.resolved_at_ms
