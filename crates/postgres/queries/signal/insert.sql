-- Keeps signals. One that is there already fails the statement, and with it the batch.
insert into ff_signal (
    partition_key, execution_id, signal_id, waitpoint_id, number, name, category, source_type,
    source_identity, subject, correlation_id, idempotency_key, dedup_until_ms, created_at_ms,
    accepted_at_ms, encoding, payload, effect
)
select * from unnest($1::ff_signal_row[])
