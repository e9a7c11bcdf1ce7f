-- Suspends, tells and ends executions, in one statement that is its own transaction: with their
-- leases, steps, suspensions, waitpoints and signals, their places and timers, and what happened.
-- Executions are locked before their leases, as everywhere. If one is not as it was decided on ($12,
-- $13), the key that signs ($15, if it matters) is not the one that was installed then ($16), or another
-- transaction serves a claim that is granted something, as lease/serving.sql says, it divides by zero,
-- and nothing is done: also no number is taken, for what nobody reads is written last.
-- Says where the executions stand.
--
-- Executions are found by their key and not by where they stand: that lets the server clear their page
-- of earlier versions, so that there is room for those to come, and no index is written.
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
    where x.partition_key = i.partition_key and x.execution_id = i.execution_id
        and x.version = i.before and x.epoch <= i.epoch
    returning x.partition_key, x.execution_id, x.ctid as at
), done as (
    delete from ff_lease l
    using unnest($2::ff_lease_row[]) i
    where l.claim_id = i.claim_id and l.partition_key = i.partition_key
        and l.execution_id = i.execution_id and l.epoch = i.epoch and l.until_ms = i.before_ms
        and (select count(*) from put) >= 0
    returning 1
), held as materialized (
    select 1 / (
        (select count(*) from put) = $12::bigint and (select count(*) from done) = $13::bigint
        and ($15::text is null or exists (
            select from ff_signing_key
            where kid = $15 and created_at_ms = $16::bigint and expires_at_ms is null
        ))
        and not exists (
            select from unnest($3::ff_lease_row[]) i
            where not pg_try_advisory_xact_lock(
                hashtextextended(current_schema() || i.claim_id::text, 0)
            )
        )
    )::integer as held
), leased as (
    insert into ff_lease (
        partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
        check_at_ms
    )
    select
        i.partition_key, i.execution_id, i.epoch, i.claim_id, i.acquired_at_ms, i.renewed_at_ms,
        i.until_ms, i.check_at_ms
    from unnest($3::ff_lease_row[]) i
), step as (
    insert into ff_step (
        partition_key, execution_id, number, attempt_index, kind, name, operation, outcome,
        time_ms, ran_ms, at_ms, encoding, bytes
    )
    select * from unnest($4::ff_step_row_8[])
), suspension as (
    insert into ff_suspension_current (
        partition_key, execution_id, suspension_id, epoch, attempt_index, primary_waitpoint_id,
        condition, resume_delay_ms, reason, requested_by, since_ms, timeout_behavior, continuation,
        closed_at_ms, close_reason, satisfied_by
    )
    select * from unnest($5::ff_suspension_row[])
    on conflict (partition_key, execution_id) do update set
        suspension_id = excluded.suspension_id, epoch = excluded.epoch,
        attempt_index = excluded.attempt_index,
        primary_waitpoint_id = excluded.primary_waitpoint_id, condition = excluded.condition,
        resume_delay_ms = excluded.resume_delay_ms, reason = excluded.reason,
        requested_by = excluded.requested_by, since_ms = excluded.since_ms,
        timeout_behavior = excluded.timeout_behavior, continuation = excluded.continuation,
        closed_at_ms = excluded.closed_at_ms, close_reason = excluded.close_reason,
        satisfied_by = excluded.satisfied_by
), opened as (
    insert into ff_waitpoint (
        partition_key, execution_id, waitpoint_id, waitpoint_key, attempt_index, suspension_id,
        kid, token_digest, created_at_ms, signal_count, matched_count, last_signal_at_ms, state,
        activated_at_ms, expires_at_ms, closed_at_ms, close_reason
    )
    select * from unnest($6::ff_waitpoint_row[])
), waitpoint as (
    update ff_waitpoint w set
        suspension_id = i.suspension_id, signal_count = i.signal_count,
        matched_count = i.matched_count, last_signal_at_ms = i.last_signal_at_ms,
        state = i.state, activated_at_ms = i.activated_at_ms, expires_at_ms = i.expires_at_ms,
        closed_at_ms = i.closed_at_ms, close_reason = i.close_reason
    from unnest($7::ff_waitpoint_row[]) i
    where w.partition_key = i.partition_key and w.execution_id = i.execution_id
        and w.waitpoint_id = i.waitpoint_id
), signal as (
    insert into ff_signal (
        partition_key, execution_id, signal_id, waitpoint_id, number, name, category, source_type,
        source_identity, subject, correlation_id, idempotency_key, dedup_until_ms, created_at_ms,
        accepted_at_ms, encoding, payload, effect
    )
    select * from unnest($8::ff_signal_row[])
), ready as (
    insert into ff_ready (
        queue, rank, turn_ms, partition_key, execution_id
    )
    select i.queue, i.rank, i.turn_ms, i.partition_key, i.execution_id
    from unnest($9::ff_ready_row[]) i where (select held from held) = 1
), over as (
    delete from ff_timer t using unnest($14::ff_timer_row[]) i
    where t.kind = i.kind and t.due_ms = i.due_ms and t.partition_key = i.partition_key
        and t.execution_id = i.execution_id
), later as (
    insert into ff_timer (
        kind, due_ms, partition_key, execution_id, queue, rank, turn_ms
    )
    select * from unnest($10::ff_timer_row[])
), told as (
    insert into ff_event (
        partition_key, execution_id, at_ms, namespace, lane_id, flow_id, kind, attempt_index,
        outcome, reason, failure_category, worker_id, worker_instance_id, retry_at_ms,
        priority_from, priority_to, members, signal_id, waitpoint_id, source_identity, subject
    )
    select * from unnest($11::ff_event_row[])
)
select put.partition_key, put.execution_id, put.at from held left join put on true
