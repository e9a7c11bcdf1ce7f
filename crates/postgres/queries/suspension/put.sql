-- Inserts suspensions, each in place of the one before it, or updates them. Their executions were
-- locked before.
insert into ff_suspension_current (
    partition_key, execution_id, suspension_id, epoch, attempt_index, primary_waitpoint_id,
    condition, resume_delay_ms, reason, requested_by, since_ms, timeout_behavior, continuation,
    closed_at_ms, close_reason, satisfied_by
)
select * from unnest($1::ff_suspension_row[])
on conflict (partition_key, execution_id) do update set
    suspension_id = excluded.suspension_id, epoch = excluded.epoch,
    attempt_index = excluded.attempt_index,
    primary_waitpoint_id = excluded.primary_waitpoint_id, condition = excluded.condition,
    resume_delay_ms = excluded.resume_delay_ms, reason = excluded.reason,
    requested_by = excluded.requested_by, since_ms = excluded.since_ms,
    timeout_behavior = excluded.timeout_behavior, continuation = excluded.continuation,
    closed_at_ms = excluded.closed_at_ms, close_reason = excluded.close_reason,
    satisfied_by = excluded.satisfied_by
