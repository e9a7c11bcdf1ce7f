-- The last signal to a waitpoint under a key, and until when the key stands for it.
select signal_id, dedup_until_ms from ff_signal
where partition_key = ?1 and execution_id = ?2 and waitpoint_id = ?3 and idempotency_key = ?4
order by number desc
limit 1
