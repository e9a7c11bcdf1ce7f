-- The last suspension of an execution.
select
    partition_key, execution_id, suspension_id, epoch, attempt_index, primary_waitpoint_id,
    condition, resume_delay_ms, reason, requested_by, since_ms, timeout_behavior, continuation,
    closed_at_ms, close_reason, satisfied_by
from ff_suspension_current
where partition_key = ?1 and execution_id = ?2
