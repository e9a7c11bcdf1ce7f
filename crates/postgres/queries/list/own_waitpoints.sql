-- Waitpoints of an execution at which signals may arrive, by id, after one ($3); else as
-- list/waitpoints.sql.
select
    w.partition_key, w.execution_id, w.waitpoint_id, w.waitpoint_key, w.attempt_index,
    w.suspension_id, w.kid, w.token_digest, w.created_at_ms, w.signal_count, w.matched_count,
    w.last_signal_at_ms, w.state, w.activated_at_ms, w.expires_at_ms, w.closed_at_ms,
    w.close_reason,
    s.partition_key, s.execution_id, s.suspension_id, s.epoch, s.attempt_index,
    s.primary_waitpoint_id, s.condition, s.resume_delay_ms, s.reason, s.requested_by, s.since_ms,
    s.timeout_behavior, s.continuation, s.closed_at_ms, s.close_reason, s.satisfied_by
from ff_waitpoint w
join ff_exec_core x on x.partition_key = w.partition_key and x.execution_id = w.execution_id
left join ff_suspension_current s
    on s.partition_key = w.partition_key and s.execution_id = w.execution_id
    and s.suspension_id = w.suspension_id
where w.state <> 'closed'
    and ((w.state = 'pending' and x.phase <> 'terminal')
        or (w.state = 'active' and x.phase = 'suspended'))
    and w.partition_key = $1 and w.execution_id = $2
    and ($3::uuid is null or w.waitpoint_id > $3)
order by w.waitpoint_id
limit $4::bigint
