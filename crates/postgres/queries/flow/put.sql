-- Updates flows that still have the version they were decided on. If not all of them do ($2), it
-- divides by zero, and the batch is undone. What was fixed at creation is not updated.
with put as (
    update ff_flow_core f set
        version = i.version, graph_revision = i.graph_revision, node_count = i.node_count,
        edge_count = i.edge_count, ended_well = i.ended_well, ended_badly = i.ended_badly,
        sealed = i.sealed, tags = i.tags, updated_at_ms = i.updated_at_ms,
        retain_until_ms = i.retain_until_ms, state = i.state, terminal_at_ms = i.terminal_at_ms,
        cancellation_policy = i.cancellation_policy, cancel_reason = i.cancel_reason,
        trim_at_ms = i.trim_at_ms
    from unnest($1::ff_flow_row[]) i
    where f.partition_key = i.partition_key and f.flow_id = i.flow_id and f.version = i.before
    returning 1
)
select 1 / (count(*) = $2::bigint)::integer from put
