-- Removes the events of an execution.
delete from ff_event where partition_key = ?1 and execution_id = ?2
