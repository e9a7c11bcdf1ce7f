-- Leases executions that are locked where they stand: their rows, their leases, and their places gone
-- from the queues. Says where they stand now. If one stood elsewhere or
-- is not as it was decided on ($2), it divides by zero, and the batch is undone.
with put as (
    update ff_exec_core x set
        version = i.version, epoch = i.epoch, attempts = i.attempts,
        progress_percent = i.progress_percent, progress_message = i.progress_message,
        progress_at_ms = i.progress_at_ms, started_at_ms = i.started_at_ms,
        updated_at_ms = i.updated_at_ms, phase = 'active', outcome = null, next_attempt = null,
        wait_until_ms = null, wait_reason = null, held_reason = null, held_at_ms = null,
        gated = false, lease_end = null, attempt_index = i.attempt_index,
        attempt_kind = i.attempt_kind, worker_id = i.worker_id,
        worker_instance_id = i.worker_instance_id,
        attempt_started_at_ms = i.attempt_started_at_ms, attempt_ran_ms = i.attempt_ran_ms,
        claim_id = i.claim_id, resumed = i.resumed, timeout_at_ms = i.timeout_at_ms,
        failure_reason = i.failure_reason, failure_category = i.failure_category,
        has_result = null, result_digest = null, cancelled_by = null, end_reason = null,
        terminal_at_ms = null, retain_until_ms = null
    from unnest($1::ff_claim_row[]) i
    where x.ctid = i.at and x.partition_key = i.partition_key
        and x.execution_id = i.execution_id and x.version = i.before and x.epoch < i.epoch
    returning
        x.partition_key, x.execution_id, x.ctid as at, i.place, x.epoch, x.claim_id,
        x.updated_at_ms, i.until_ms, i.check_at_ms
), lease as (
    insert into ff_lease (
        partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
        check_at_ms
    )
    select
        put.partition_key, put.execution_id, put.epoch, put.claim_id, put.updated_at_ms,
        put.updated_at_ms, put.until_ms, put.check_at_ms
    from put
), gone as (
    delete from ff_ready r using put
    where r.ctid = put.place and r.partition_key = put.partition_key
        and r.execution_id = put.execution_id
    returning 1
)
select
    put.partition_key, put.execution_id, put.at,
    1 / (n.put = $2::bigint and n.gone = $2)::integer as held
from (select (select count(*) from put) as put, (select count(*) from gone) as gone) n
left join put on true
