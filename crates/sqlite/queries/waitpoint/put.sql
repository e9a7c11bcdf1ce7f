-- Inserts or updates a waitpoint.
insert into ff_waitpoint (
    partition_key, execution_id, waitpoint_id, waitpoint_key, attempt_index, suspension_id, kid,
    token_digest, created_at_ms, signal_count, matched_count, last_signal_at_ms, state,
    activated_at_ms, expires_at_ms, closed_at_ms, close_reason
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
on conflict (partition_key, execution_id, waitpoint_id) do update set
    waitpoint_key = excluded.waitpoint_key, attempt_index = excluded.attempt_index,
    suspension_id = excluded.suspension_id, kid = excluded.kid,
    token_digest = excluded.token_digest, created_at_ms = excluded.created_at_ms,
    signal_count = excluded.signal_count, matched_count = excluded.matched_count,
    last_signal_at_ms = excluded.last_signal_at_ms, state = excluded.state,
    activated_at_ms = excluded.activated_at_ms, expires_at_ms = excluded.expires_at_ms,
    closed_at_ms = excluded.closed_at_ms, close_reason = excluded.close_reason
