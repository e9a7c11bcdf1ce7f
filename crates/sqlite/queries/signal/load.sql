-- One signal of an execution.
select
    partition_key, execution_id, signal_id, waitpoint_id, number, name, category, source_type,
    source_identity, subject, correlation_id, idempotency_key, dedup_until_ms, created_at_ms,
    accepted_at_ms, encoding, payload, effect
from ff_signal
where partition_key = ?1 and execution_id = ?2 and signal_id = ?3
