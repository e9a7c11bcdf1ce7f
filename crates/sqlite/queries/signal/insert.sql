-- Keeps a signal.
insert into ff_signal (
    partition_key, execution_id, signal_id, waitpoint_id, number, name, category, source_type,
    source_identity, subject, correlation_id, idempotency_key, dedup_until_ms, created_at_ms,
    accepted_at_ms, encoding, payload, effect
) values (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18
)
