-- Suspended executions of a partition, a namespace or for a reason, longest first, after a place
-- ($4, $5, $6), each with its suspension.
select
    x.partition_key, x.execution_id, x.version, x.namespace, x.lane_id, x.kind, x.creator,
    x.policy, x.idempotency_key, x.fingerprint, x.created_at_ms, x.priority, x.tags,
    x.deadline_at_ms, x.epoch, x.attempts, x.retries, x.reclaims, x.replays,
    x.progress_percent, x.progress_message, x.progress_at_ms, x.flow_id, x.node, x.input_from,
    x.started_at_ms, x.updated_at_ms,
    x.phase, x.outcome, x.next_attempt, x.wait_until_ms, x.wait_reason, x.held_reason,
    x.held_at_ms, x.gated, x.lease_end, x.attempt_index, x.attempt_kind, x.worker_id,
    x.worker_instance_id, x.attempt_started_at_ms, x.attempt_ran_ms, x.resumed,
    x.timeout_at_ms, x.failure_reason, x.failure_category, x.has_result, x.result_digest, x.cancelled_by,
    x.end_reason, x.terminal_at_ms, x.retain_until_ms,
    s.partition_key, s.execution_id, s.suspension_id, s.epoch, s.attempt_index,
    s.primary_waitpoint_id, s.condition, s.resume_delay_ms, s.reason, s.requested_by, s.since_ms,
    s.timeout_behavior, s.continuation, s.closed_at_ms, s.close_reason, s.satisfied_by
from ff_suspension_current s
join ff_exec_core x
    on x.partition_key = s.partition_key and x.execution_id = s.execution_id
    and x.epoch = s.epoch
where s.closed_at_ms is null and x.phase = 'suspended'
    and ($1::smallint is null or s.partition_key = $1)
    and ($2::text is null or x.namespace = $2)
    and ($3::text is null or s.reason = $3)
    and (s.since_ms, s.partition_key, s.execution_id) > ($4::bigint, $5::smallint, $6::uuid)
order by s.since_ms, s.partition_key, s.execution_id
limit $7::bigint
