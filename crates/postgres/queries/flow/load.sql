-- Loads flows.
select
    f.partition_key, f.flow_id, f.version, f.namespace, f.kind, f.creator, f.idempotency_key,
    f.fingerprint, f.created_at_ms, f.graph_revision, f.node_count, f.edge_count, f.ended_well,
    f.ended_badly, f.sealed, f.tags, f.updated_at_ms, f.retain_until_ms, f.state,
    f.terminal_at_ms, f.cancellation_policy, f.cancel_reason, f.trim_at_ms
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
join ff_flow_core f on f.partition_key = i.partition_key and f.flow_id = i.flow_id
