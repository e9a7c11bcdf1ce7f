-- Removes the attempts of an execution.
delete from ff_attempt where partition_key = ?1 and execution_id = ?2
