-- Ends the waits of executions at $3 with signals, in one statement that is its own transaction: their
-- rows, the leases of those that are claimed at once and the places of the others, their suspensions,
-- waitpoints and signals, the timers that are over, and what happened. If one is not as it was decided
-- on ($2), or the key that signs ($10) is not the one that was installed then ($11), it divides by zero,
-- and nothing is done: also no number is taken, for what nobody reads is written last. Says where the
-- executions and their places stand.
--
-- Executions are found by their key and not by where they stand: that lets the server clear their page
-- of earlier versions, so that there is room for those to come, and no index is written.
with put as (
    update ff_exec_core x set
        version = i.version, epoch = i.epoch, updated_at_ms = $3::bigint, phase = i.phase,
        next_attempt = i.next_attempt, wait_until_ms = null, wait_reason = null,
        lease_end = i.lease_end, worker_id = i.worker_id,
        worker_instance_id = i.worker_instance_id, claim_id = i.claim_id, resumed = i.resumed,
        timeout_at_ms = i.timeout_at_ms
    from unnest($1::ff_told_row[]) i
    where x.partition_key = i.partition_key and x.execution_id = i.execution_id
        and x.version = i.before and x.epoch <= i.epoch
    returning
        x.partition_key, x.execution_id, x.ctid as at, x.epoch, x.claim_id, i.until_ms,
        i.check_at_ms
), held as materialized (
    select 1 / (
        (select count(*) from put) = $2::bigint
        and ($10::text is null or exists (
            select from ff_signing_key
            where kid = $10 and created_at_ms = $11::bigint and expires_at_ms is null
        ))
    )::integer as held
), leased as (
    insert into ff_lease (
        partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
        check_at_ms
    )
    select
        put.partition_key, put.execution_id, put.epoch, put.claim_id, $3, $3, put.until_ms,
        put.check_at_ms
    from put
    where put.claim_id is not null
        and pg_try_advisory_xact_lock(hashtextextended(current_schema() || put.claim_id::text, 0)) is not null
), suspension as (
    update ff_suspension_current s set
        closed_at_ms = i.closed_at_ms, close_reason = i.close_reason,
        satisfied_by = i.satisfied_by
    from unnest($4::ff_suspension_row[]) i
    where s.partition_key = i.partition_key and s.execution_id = i.execution_id
), waitpoint as (
    update ff_waitpoint w set
        suspension_id = i.suspension_id, signal_count = i.signal_count,
        matched_count = i.matched_count, last_signal_at_ms = i.last_signal_at_ms,
        state = i.state, activated_at_ms = i.activated_at_ms, expires_at_ms = i.expires_at_ms,
        closed_at_ms = i.closed_at_ms, close_reason = i.close_reason
    from unnest($5::ff_waitpoint_row[]) i
    where w.partition_key = i.partition_key and w.execution_id = i.execution_id
        and w.waitpoint_id = i.waitpoint_id
), signal as (
    insert into ff_signal (
        partition_key, execution_id, signal_id, waitpoint_id, number, name, category, source_type,
        source_identity, subject, correlation_id, idempotency_key, dedup_until_ms, created_at_ms,
        accepted_at_ms, encoding, payload, effect
    )
    select * from unnest($6::ff_signal_row[])
), ready as (
    insert into ff_ready (
        queue, rank, turn_ms, partition_key, execution_id
    )
    select i.queue, i.rank, i.turn_ms, i.partition_key, i.execution_id
    from unnest($7::ff_ready_row[]) i where (select held from held) = 1
    returning partition_key, execution_id, ctid as place
), over as (
    delete from ff_timer t using unnest($8::ff_timer_row[]) i
    where t.kind = i.kind and t.due_ms = i.due_ms and t.partition_key = i.partition_key
        and t.execution_id = i.execution_id
), told as (
    insert into ff_event (
        partition_key, execution_id, at_ms, namespace, lane_id, flow_id, kind, attempt_index,
        outcome, reason, failure_category, worker_id, worker_instance_id, retry_at_ms,
        priority_from, priority_to, members, signal_id, waitpoint_id, source_identity, subject
    )
    select * from unnest($9::ff_event_row[])
)
select put.partition_key, put.execution_id, put.at, null::tid as place
from held left join put on true
union all
select ready.partition_key, ready.execution_id, null::tid, ready.place from ready
