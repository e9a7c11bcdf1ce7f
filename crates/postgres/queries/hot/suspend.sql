-- Suspends executions at $3, in one statement that is its own transaction: their rows and leases, what
-- they wait for, their steps and timers, and what happened, made of the rows themselves, in this order
-- ("turn"). Executions are locked before their leases, as everywhere. If one is not as it was decided
-- on ($2), or the key that signs ($8) is not the one that was installed then ($9), it divides by zero,
-- and nothing is done: also no number is taken, for what nobody reads is written last. Says where the
-- executions stand.
with put as (
    update ff_exec_core x set
        version = x.version + 1, epoch = i.epoch, updated_at_ms = $3::bigint,
        phase = 'suspended', wait_until_ms = i.wait_until_ms, wait_reason = i.wait_reason,
        lease_end = 'suspended', attempt_ran_ms = i.attempt_ran_ms, claim_id = null,
        resumed = null, timeout_at_ms = null
    from unnest($1::ff_suspended_row[]) i
    where x.ctid = i.at and x.partition_key = i.partition_key
        and x.execution_id = i.execution_id and x.version = i.before and x.epoch < i.epoch
    returning
        i.turn, x.partition_key, x.execution_id, x.ctid as at, x.namespace, x.lane_id, x.flow_id,
        x.attempt_index, x.wait_reason, i.claim_id, i.epoch - 1 as lease_epoch, i.until_ms
), done as (
    delete from ff_lease l using put
    where l.claim_id = put.claim_id and l.partition_key = put.partition_key
        and l.execution_id = put.execution_id and l.epoch = put.lease_epoch
        and l.until_ms = put.until_ms
    returning 1
), held as materialized (
    select 1 / (
        (select count(*) from put) = $2::bigint and (select count(*) from done) = $2
        and ($8::text is null or exists (
            select from ff_signing_key
            where kid = $8 and created_at_ms = $9::bigint and expires_at_ms is null
        ))
    )::integer as held
), step as (
    insert into ff_step (
        partition_key, execution_id, number, attempt_index, kind, name, ran_ms, at_ms, encoding,
        bytes
    )
    select * from unnest($4::ff_step_row[])
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
), later as (
    insert into ff_timer (
        kind, due_ms, partition_key, execution_id, queue, rank, turn_ms
    )
    select * from unnest($7::ff_timer_row[])
), told as (
    insert into ff_event (
        partition_key, execution_id, at_ms, namespace, lane_id, flow_id, kind, attempt_index,
        outcome
    )
    select
        put.partition_key, put.execution_id, $3, put.namespace, put.lane_id, put.flow_id,
        'suspended', put.attempt_index, put.wait_reason
    from put order by put.turn
)
select put.partition_key, put.execution_id, put.at from held left join put on true
