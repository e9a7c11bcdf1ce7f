-- Removes an execution.
delete from ff_exec_core where partition_key = ?1 and execution_id = ?2
