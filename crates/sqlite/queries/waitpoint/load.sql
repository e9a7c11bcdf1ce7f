-- Loads one waitpoint.
select
    partition_key, execution_id, waitpoint_id, waitpoint_key, attempt_index, suspension_id, kid,
    token_digest, created_at_ms, signal_count, matched_count, last_signal_at_ms, state,
    activated_at_ms, expires_at_ms, closed_at_ms, close_reason
from ff_waitpoint
where partition_key = ?1 and execution_id = ?2 and waitpoint_id = ?3
