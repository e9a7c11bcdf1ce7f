-- Inserts an execution, or updates it if it still has the version it was decided on (the last
-- parameter; 0 for an insert, which no stored row has). What was fixed at creation is not updated.
insert into ff_exec_core (
    partition_key, execution_id, version, namespace, lane_id, kind, creator, policy,
    idempotency_key, fingerprint, created_at_ms, priority, tags, deadline_at_ms, epoch,
    attempts, retries, reclaims, replays, progress_percent, progress_message, progress_at_ms,
    flow_id, node, input_from, started_at_ms, updated_at_ms, phase, outcome, next_attempt,
    wait_until_ms, wait_reason, held_reason, held_at_ms, gated, lease_end, attempt_index,
    attempt_kind, worker_id, worker_instance_id, attempt_started_at_ms, attempt_ran_ms, resumed,
    timeout_at_ms, failure_reason, failure_category, has_result, result_digest, cancelled_by, end_reason,
    terminal_at_ms, retain_until_ms
) values (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38,
    ?39, ?40, ?41, ?42, ?43, ?44, ?45, ?46, ?47, ?48, ?49, ?50, ?51, ?52
)
on conflict (partition_key, execution_id) do update set
    version = excluded.version, priority = excluded.priority, tags = excluded.tags,
    deadline_at_ms = excluded.deadline_at_ms, epoch = excluded.epoch,
    attempts = excluded.attempts, retries = excluded.retries, reclaims = excluded.reclaims,
    replays = excluded.replays, progress_percent = excluded.progress_percent,
    progress_message = excluded.progress_message, progress_at_ms = excluded.progress_at_ms,
    flow_id = excluded.flow_id, node = excluded.node, input_from = excluded.input_from,
    started_at_ms = excluded.started_at_ms, updated_at_ms = excluded.updated_at_ms,
    phase = excluded.phase, outcome = excluded.outcome, next_attempt = excluded.next_attempt,
    wait_until_ms = excluded.wait_until_ms, wait_reason = excluded.wait_reason,
    held_reason = excluded.held_reason, held_at_ms = excluded.held_at_ms,
    gated = excluded.gated, lease_end = excluded.lease_end,
    attempt_index = excluded.attempt_index, attempt_kind = excluded.attempt_kind,
    worker_id = excluded.worker_id,
    worker_instance_id = excluded.worker_instance_id,
    attempt_started_at_ms = excluded.attempt_started_at_ms,
    attempt_ran_ms = excluded.attempt_ran_ms, resumed = excluded.resumed,
    timeout_at_ms = excluded.timeout_at_ms, failure_reason = excluded.failure_reason,
    failure_category = excluded.failure_category, has_result = excluded.has_result,
    result_digest = excluded.result_digest,
    cancelled_by = excluded.cancelled_by, end_reason = excluded.end_reason,
    terminal_at_ms = excluded.terminal_at_ms, retain_until_ms = excluded.retain_until_ms
where ff_exec_core.version = ?53
