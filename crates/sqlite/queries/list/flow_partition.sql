-- Flows of a partition, by id, after one.
select
    partition_key, flow_id, version, namespace, kind, creator, idempotency_key, fingerprint,
    created_at_ms, graph_revision, node_count, edge_count, ended_well, ended_badly, sealed, tags,
    updated_at_ms, retain_until_ms, state, terminal_at_ms, cancellation_policy, cancel_reason,
    trim_at_ms
from ff_flow_core
where partition_key = ?1 and flow_id > coalesce(?2, x'')
order by flow_id
limit ?3
