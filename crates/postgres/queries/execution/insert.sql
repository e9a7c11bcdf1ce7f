-- Inserts executions. One that is there already fails the statement, and with it the batch.
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
select * from unnest($1::ff_new_execution_row_7[])
