-- Loads the last suspensions of executions.
select
    s.partition_key, s.execution_id, s.suspension_id, s.epoch, s.attempt_index,
    s.primary_waitpoint_id, s.condition, s.resume_delay_ms, s.reason, s.requested_by, s.since_ms,
    s.timeout_behavior, s.continuation, s.closed_at_ms, s.close_reason, s.satisfied_by
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
join ff_suspension_current s
    on s.partition_key = i.partition_key and s.execution_id = i.execution_id
