-- Inserts waitpoints. Their executions were locked before. One whose id is taken fails the batch.
insert into ff_waitpoint (
    partition_key, execution_id, waitpoint_id, waitpoint_key, attempt_index, suspension_id, kid,
    token_digest, created_at_ms, signal_count, matched_count, last_signal_at_ms, state,
    activated_at_ms, expires_at_ms, closed_at_ms, close_reason
)
select * from unnest($1::ff_waitpoint_row[])
