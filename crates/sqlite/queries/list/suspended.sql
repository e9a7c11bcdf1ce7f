-- The suspensions of executions that are suspended, longest first, after a place (?1, ?2, ?3), for
-- some partition (?4), namespace (?5) or reason (?6).
select
    s.partition_key, s.execution_id, s.suspension_id, s.epoch, s.attempt_index,
    s.primary_waitpoint_id, s.condition, s.resume_delay_ms, s.reason, s.requested_by, s.since_ms,
    s.timeout_behavior, s.continuation, s.closed_at_ms, s.close_reason, s.satisfied_by
from ff_suspension_current s
cross join ff_exec_core x
    on x.partition_key = s.partition_key and x.execution_id = s.execution_id
where s.closed_at_ms is null and x.phase = 'suspended' and x.epoch = s.epoch
    and (?4 is null or s.partition_key = ?4)
    and (?5 is null or x.namespace = ?5)
    and (?6 is null or s.reason = ?6)
    and (s.since_ms, s.partition_key, s.execution_id) > (?1, ?2, ?3)
order by s.since_ms, s.partition_key, s.execution_id
limit ?7
