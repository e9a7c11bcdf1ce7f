-- Removes the waitpoints of an execution.
delete from ff_waitpoint where partition_key = ?1 and execution_id = ?2
