-- Loads the members of a flow that have not ended, which members.sql has locked, with their leases and
-- their places in the table. A lease that is renewed meanwhile is found out when it is ended.
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
    x.end_reason, x.terminal_at_ms, x.retain_until_ms, l.epoch as lease_epoch, l.claim_id,
    l.acquired_at_ms, l.renewed_at_ms, l.until_ms, l.check_at_ms, x.ctid as at
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
cross join lateral (
    select x.*, x.ctid from ff_exec_core x
    where x.partition_key = i.partition_key and x.flow_id = i.flow_id and x.phase <> 'terminal'
    order by x.execution_id
    limit $3::bigint
) x
left join ff_lease l
    on l.claim_id = x.claim_id and l.partition_key = x.partition_key
    and l.execution_id = x.execution_id
