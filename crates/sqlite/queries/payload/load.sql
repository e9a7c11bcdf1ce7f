-- Reads bytes.
select encoding, bytes from ff_payload
where partition_key = ?1 and execution_id = ?2 and kind = ?3 and attempt_index = ?4
