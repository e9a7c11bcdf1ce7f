-- Cancels executions that never ran, all for the same reason, and appends their events in this order.
-- If one is not as it was decided on ($8), it divides by zero, and the batch is undone. They are locked
-- already, where they stand.
with put as (
    update ff_exec_core x set
        version = x.version + 1, updated_at_ms = i.at_ms, phase = 'terminal',
        outcome = 'cancelled', next_attempt = null, wait_until_ms = null, wait_reason = null,
        held_reason = null, held_at_ms = null, gated = false, cancelled_by = $6::text,
        end_reason = $7::text, terminal_at_ms = i.at_ms, retain_until_ms = i.retain_until_ms
    from unnest(
        $1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::bigint[], $9::tid[]
    ) with ordinality
        as i (partition_key, execution_id, before, at_ms, retain_until_ms, at, turn)
    where x.ctid = i.at and x.partition_key = i.partition_key
        and x.execution_id = i.execution_id and x.version = i.before
    returning
        i.turn, x.partition_key, x.execution_id, i.at_ms, x.namespace, x.lane_id, x.flow_id
), told as (
    insert into ff_event (
        partition_key, execution_id, at_ms, namespace, lane_id, flow_id, kind, outcome, reason
    )
    select
        p.partition_key, p.execution_id, p.at_ms, p.namespace, p.lane_id, p.flow_id,
        'completion', 'cancelled', $7::text
    from put p order by p.turn
)
select 1 / (count(*) = $8::bigint)::integer from put
