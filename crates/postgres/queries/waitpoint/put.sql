-- Updates waitpoints. Their executions were locked before. What was fixed at creation is not updated.
update ff_waitpoint w set
    suspension_id = i.suspension_id, signal_count = i.signal_count,
    matched_count = i.matched_count, last_signal_at_ms = i.last_signal_at_ms, state = i.state,
    activated_at_ms = i.activated_at_ms, expires_at_ms = i.expires_at_ms,
    closed_at_ms = i.closed_at_ms, close_reason = i.close_reason
from unnest($1::ff_waitpoint_row[]) i
where w.partition_key = i.partition_key and w.execution_id = i.execution_id
    and w.waitpoint_id = i.waitpoint_id
