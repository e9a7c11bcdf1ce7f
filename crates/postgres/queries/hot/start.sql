-- Creates executions of which some are leased at once: with their inputs, leases and places, in one
-- statement that is its own transaction. Says where they stand. One that is there already fails it.
-- The executions come first, and sorted: whoever creates the same ones waits there, and holds
-- nothing else. It stands apart from create.sql because the leases are one more part, which every
-- creation would pay for, also with none to insert. The guard is that of lease/free.sql, and comes first:
-- a claim is locked also while this waits for a transaction that creates the same execution.
with free as materialized (
    select 1 / (not exists (
        select from unnest($4::ff_lease_row[]) i
        where not pg_try_advisory_xact_lock(
                hashtextextended(current_schema() || i.claim_id::text, 0)
            )
            or exists (
                select from ff_lease l
                where l.claim_id = i.claim_id and l.until_ms > i.acquired_at_ms
            )
    ))::integer as free
), core as (
    insert into ff_exec_core (
        partition_key, execution_id, version, namespace, lane_id, kind, creator, policy,
        idempotency_key, fingerprint, created_at_ms, flow_id, node, input_size, input_encoding,
        input, priority, tags, deadline_at_ms, epoch, attempts,
        retries, reclaims, replays, progress_percent, progress_message, progress_at_ms, input_from,
        started_at_ms, updated_at_ms, phase, outcome, next_attempt, wait_until_ms, wait_reason,
        held_reason, held_at_ms, gated, lease_end, attempt_index, attempt_kind, worker_id,
        worker_instance_id, attempt_started_at_ms, attempt_ran_ms, claim_id, resumed, timeout_at_ms,
        failure_reason, failure_category, has_result, result_digest, cancelled_by, end_reason, terminal_at_ms,
        retain_until_ms
    )
    select i.* from unnest($1::ff_new_execution_row_7[]) i where (select free from free) = 1
    returning partition_key, execution_id, ctid as at
), input as (
    insert into ff_payload (
        partition_key, execution_id, kind, attempt_index, encoding, bytes
    )
    select i.* from unnest($2::ff_payload_row[]) i where (select count(*) from core) >= 0
), lease as (
    insert into ff_lease (
        partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
        check_at_ms
    )
    select
        i.partition_key, i.execution_id, i.epoch, i.claim_id, i.acquired_at_ms, i.renewed_at_ms,
        i.until_ms, i.check_at_ms
    from unnest($4::ff_lease_row[]) i where (select count(*) from core) >= 0
), ready as (
    insert into ff_ready (
        queue, rank, turn_ms, partition_key, execution_id
    )
    select i.queue, i.rank, i.turn_ms, i.partition_key, i.execution_id
    from unnest($3::ff_ready_row[]) i where (select count(*) from core) >= 0
)
select partition_key, execution_id, at from core
