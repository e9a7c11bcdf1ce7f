-- Flows by namespace, kind, state and tag ($4, $5), newest first, before a place ($6, $7, $8).
select
    partition_key, flow_id, version, namespace, kind, creator, idempotency_key, fingerprint,
    created_at_ms, graph_revision, node_count, edge_count, ended_well, ended_badly, sealed, tags,
    updated_at_ms, retain_until_ms, state, terminal_at_ms, cancellation_policy, cancel_reason,
    trim_at_ms
from ff_flow_core
where ($1::text is null or namespace = $1)
    and ($2::text is null or kind = $2)
    and ($3::text is null or state = $3)
    and ($4::text is null or tags::jsonb ->> $4 = $5::text)
    and (created_at_ms, partition_key, flow_id) < ($6::bigint, $7::smallint, $8::uuid)
order by created_at_ms desc, partition_key desc, flow_id desc
limit $9::bigint
