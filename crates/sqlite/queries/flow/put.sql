-- Inserts a flow, or updates it if it still has the version it was decided on (the last
-- parameter; 0 for an insert, which no stored row has). What was fixed at creation is not updated.
insert into ff_flow_core (
    partition_key, flow_id, version, namespace, kind, creator, idempotency_key, fingerprint,
    created_at_ms, graph_revision, node_count, edge_count, ended_well, ended_badly, sealed, tags,
    updated_at_ms, retain_until_ms, state, terminal_at_ms, cancellation_policy, cancel_reason,
    trim_at_ms
) values (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23
)
on conflict (partition_key, flow_id) do update set
    version = excluded.version, graph_revision = excluded.graph_revision,
    node_count = excluded.node_count, edge_count = excluded.edge_count,
    ended_well = excluded.ended_well, ended_badly = excluded.ended_badly,
    sealed = excluded.sealed, tags = excluded.tags, updated_at_ms = excluded.updated_at_ms,
    retain_until_ms = excluded.retain_until_ms, state = excluded.state,
    terminal_at_ms = excluded.terminal_at_ms,
    cancellation_policy = excluded.cancellation_policy,
    cancel_reason = excluded.cancel_reason, trim_at_ms = excluded.trim_at_ms
where ff_flow_core.version = ?24
