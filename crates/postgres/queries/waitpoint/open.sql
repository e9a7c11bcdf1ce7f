-- Loads all waitpoints of executions that are not closed, which is said without the column of the
-- partial indexes: a young table would be searched by those.
select
    w.partition_key, w.execution_id, w.waitpoint_id, w.waitpoint_key, w.attempt_index,
    w.suspension_id, w.kid, w.token_digest, w.created_at_ms, w.signal_count, w.matched_count,
    w.last_signal_at_ms, w.state, w.activated_at_ms, w.expires_at_ms, w.closed_at_ms,
    w.close_reason
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
join ff_waitpoint w
    on w.partition_key = i.partition_key and w.execution_id = i.execution_id
where w.closed_at_ms is null
