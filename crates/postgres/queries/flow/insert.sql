-- Inserts flows. One that is there already fails the statement, and with it the batch.
insert into ff_flow_core (
    partition_key, flow_id, version, namespace, kind, creator, idempotency_key, fingerprint,
    created_at_ms, graph_revision, node_count, edge_count, ended_well, ended_badly, sealed, tags,
    updated_at_ms, retain_until_ms, state, terminal_at_ms, cancellation_policy, cancel_reason,
    trim_at_ms
)
select
    i.partition_key, i.flow_id, i.version, i.namespace, i.kind, i.creator, i.idempotency_key,
    i.fingerprint, i.created_at_ms, i.graph_revision, i.node_count, i.edge_count, i.ended_well,
    i.ended_badly, i.sealed, i.tags, i.updated_at_ms, i.retain_until_ms, i.state,
    i.terminal_at_ms, i.cancellation_policy, i.cancel_reason, i.trim_at_ms
from unnest($1::ff_flow_row[]) i
