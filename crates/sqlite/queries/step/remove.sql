-- Removes the steps of an execution.
delete from ff_step where partition_key = ?1 and execution_id = ?2
