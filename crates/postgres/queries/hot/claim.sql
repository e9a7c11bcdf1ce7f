-- Leases executions that are locked, where they stand: their rows, their leases, and their places
-- gone from the queues. Says where they stand now. If one stood elsewhere ($4), it divides by zero,
-- and the batch is undone.
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
        has_result = i.has_result, cancelled_by = i.cancelled_by, end_reason = i.end_reason,
        terminal_at_ms = i.terminal_at_ms, retain_until_ms = i.retain_until_ms
    from unnest($1::ff_execution_row[]) i
    where x.ctid = i.at and x.partition_key = i.partition_key
        and x.execution_id = i.execution_id and x.version = i.before
    returning x.partition_key, x.execution_id, x.ctid as at
), lease as (
    insert into ff_lease (
        partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
        check_at_ms
    )
    select
        i.partition_key, i.execution_id, i.epoch, i.claim_id, i.acquired_at_ms, i.renewed_at_ms,
        i.until_ms, i.check_at_ms
    from unnest($2::ff_lease_row[]) i
), gone as (
    delete from ff_ready r using unnest($3::ff_ready_row[]) i
    where r.ctid = i.at and r.partition_key = i.partition_key
        and r.execution_id = i.execution_id
    returning 1
)
select
    put.partition_key, put.execution_id, put.at,
    1 / (n.put = $4::bigint and n.gone = $4)::integer as held
from (select (select count(*) from put) as put, (select count(*) from gone) as gone) n
left join put on true
