-- Ends leases, in one statement that is its own transaction: the executions, their results, timers
-- and places, and what happened. Executions are locked before their leases, as everywhere. If one is
-- not as it was decided on ($7, $8), it divides by zero, and nothing is done: no number is taken before
-- both are held, and what nobody reads is written last.
with put as (
    update ff_exec_core x set
        version = i.version, priority = i.priority, tags = i.tags,
        deadline_at_ms = i.deadline_at_ms, epoch = i.epoch, attempts = i.attempts,
        retries = i.retries, reclaims = i.reclaims, replays = i.replays,
        progress_percent = i.progress_percent, progress_message = i.progress_message,
        progress_at_ms = i.progress_at_ms, started_at_ms = i.started_at_ms,
        updated_at_ms = i.updated_at_ms, phase = i.phase, outcome = i.outcome,
        next_attempt = i.next_attempt, wait_until_ms = i.wait_until_ms,
        wait_reason = i.wait_reason, held_reason = i.held_reason, held_at_ms = i.held_at_ms,
        gated = i.gated, lease_end = i.lease_end, attempt_index = i.attempt_index,
        attempt_kind = i.attempt_kind, worker_id = i.worker_id,
        worker_instance_id = i.worker_instance_id,
        attempt_started_at_ms = i.attempt_started_at_ms, attempt_ran_ms = i.attempt_ran_ms,
        claim_id = i.claim_id, resumed = i.resumed, timeout_at_ms = i.timeout_at_ms,
        failure_reason = i.failure_reason, failure_category = i.failure_category,
        has_result = i.has_result, result_digest = i.result_digest,
        cancelled_by = i.cancelled_by, end_reason = i.end_reason,
        terminal_at_ms = i.terminal_at_ms, retain_until_ms = i.retain_until_ms,
        result_attempt = coalesce(i.result_attempt, x.result_attempt),
        result_encoding = coalesce(i.result_encoding, x.result_encoding),
        result = coalesce(i.result, x.result)
    from unnest($1::ff_execution_row_7[]) i
    where x.ctid = i.at and x.partition_key = i.partition_key
        and x.execution_id = i.execution_id and x.version = i.before and x.epoch <= i.epoch
    returning 1
), done as (
    delete from ff_lease l
    using unnest($2::ff_lease_row[]) i
    where l.claim_id = i.claim_id and l.partition_key = i.partition_key
        and l.execution_id = i.execution_id and l.epoch = i.epoch and l.until_ms = i.before_ms
        and (select count(*) from put) >= 0
    returning 1
), held as materialized (
    select 1 / (
        (select count(*) from put) = $7::bigint and (select count(*) from done) = $8::bigint
    )::integer as held
), result as (
    insert into ff_payload (
        partition_key, execution_id, kind, attempt_index, encoding, bytes
    )
    select
        i.partition_key, i.execution_id, i.kind, i.attempt_index, i.encoding, i.bytes
    from unnest($3::ff_payload_row[]) i
), ready as (
    insert into ff_ready (
        queue, rank, turn_ms, partition_key, execution_id
    )
    select
        i.queue, i.rank, i.turn_ms, i.partition_key, i.execution_id
    from unnest($6::ff_ready_row[]) i
), later as (
    insert into ff_timer (
        kind, due_ms, partition_key, execution_id, queue, rank, turn_ms
    )
    select
        i.kind, i.due_ms, i.partition_key, i.execution_id, i.queue, i.rank, i.turn_ms
    from unnest($4::ff_timer_row[]) i
)
insert into ff_event (
    partition_key, execution_id, at_ms, namespace, lane_id, flow_id, kind, attempt_index, outcome,
    reason, failure_category, worker_id, worker_instance_id, retry_at_ms, priority_from,
    priority_to
)
select
    i.partition_key, i.execution_id, i.at_ms, i.namespace, i.lane_id, i.flow_id, i.kind,
    i.attempt_index, i.outcome, i.reason, i.failure_category, i.worker_id, i.worker_instance_id,
    i.retry_at_ms, i.priority_from, i.priority_to
from unnest($5::ff_event_row[]) i where (select held from held) = 1
