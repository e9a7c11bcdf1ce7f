-- Updates executions that still have the version they were decided on, and are in the same life: one
-- that was removed and created again counts versions from one, but has a later epoch. If not all of them do ($2),
-- it divides by zero, and the batch is undone. Says where they stand then. The rows come sorted and the join keeps their
-- order, so they are locked in that order.
with put as (
    update ff_exec_core x set
        version = i.version, priority = i.priority, tags = i.tags,
        deadline_at_ms = i.deadline_at_ms, epoch = i.epoch, attempts = i.attempts,
        retries = i.retries, reclaims = i.reclaims, replays = i.replays,
        progress_percent = i.progress_percent, progress_message = i.progress_message,
        progress_at_ms = i.progress_at_ms, input_from = i.input_from,
        started_at_ms = i.started_at_ms,
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
    where x.partition_key = i.partition_key and x.execution_id = i.execution_id
        and x.version = i.before and x.epoch <= i.epoch
    returning x.partition_key, x.execution_id, x.ctid as at
), held as materialized (
    select 1 / (count(*) = $2::bigint)::integer as held from put
)
select p.partition_key, p.execution_id, p.at from held left join put p on true
