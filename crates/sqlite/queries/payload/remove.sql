-- Removes the bytes of an execution.
delete from ff_payload where partition_key = ?1 and execution_id = ?2
