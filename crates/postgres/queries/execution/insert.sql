-- Inserts executions. One that is there already fails the statement, and with it the batch.
insert into ff_exec_core (
    partition_key, execution_id, version, priority, tags, deadline_at_ms, epoch, attempts,
    retries, reclaims, replays, progress_percent, progress_message, progress_at_ms,
    started_at_ms, updated_at_ms, phase, outcome, next_attempt, wait_until_ms, wait_reason,
    held_reason, held_at_ms, lease_end, attempt_index, attempt_kind, worker_id,
    worker_instance_id, attempt_started_at_ms, attempt_ran_ms, claim_id, resumed, timeout_at_ms,
    failure_reason, failure_category, has_result, cancelled_by, end_reason, terminal_at_ms,
    retain_until_ms, namespace, lane_id, kind, creator, policy, idempotency_key, fingerprint,
    created_at_ms
)
select * from unnest(
    $1::smallint[], $2::uuid[], $3::bigint[], $4::integer[], $5::text[], $6::bigint[],
    $7::bigint[], $8::integer[], $9::integer[], $10::integer[], $11::integer[], $12::integer[],
    $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::text[], $18::text[],
    $19::text[], $20::bigint[], $21::text[], $22::text[], $23::bigint[], $24::text[],
    $25::integer[], $26::text[], $27::text[], $28::text[], $29::bigint[], $30::bigint[],
    $31::uuid[], $32::boolean[], $33::bigint[], $34::text[], $35::text[], $36::boolean[],
    $37::text[], $38::text[], $39::bigint[], $40::bigint[], $41::text[], $42::text[],
    $43::text[], $44::text[], $45::text[], $46::text[], $47::bytea[], $48::bigint[]
)
