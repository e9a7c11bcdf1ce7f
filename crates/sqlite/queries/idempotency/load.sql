-- What a key stands for.
select partition_key, execution_id, fingerprint, expires_at_ms from ff_idempotency
where namespace = ?1 and key = ?2
