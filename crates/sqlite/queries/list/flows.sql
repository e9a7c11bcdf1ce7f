-- Flows by namespace, kind, state and tag (?4, ?5), newest first, before a place (?6, ?7, ?8).
select
    partition_key, flow_id, version, namespace, kind, creator, idempotency_key, fingerprint,
    created_at_ms, graph_revision, node_count, edge_count, ended_well, ended_badly, sealed, tags,
    updated_at_ms, retain_until_ms, state, terminal_at_ms, cancellation_policy, cancel_reason,
    trim_at_ms
from ff_flow_core
where (?1 is null or namespace = ?1)
    and (?2 is null or kind = ?2)
    and (?3 is null or state = ?3)
    and (?4 is null or exists (
        select 1 from json_each(tags) where json_each.key = ?4 and json_each.value = ?5
    ))
    and (created_at_ms, partition_key, flow_id) < (?6, ?7, ?8)
order by created_at_ms desc, partition_key desc, flow_id desc
limit ?9
