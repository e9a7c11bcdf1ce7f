-- Removes the signals of an execution.
delete from ff_signal where partition_key = ?1 and execution_id = ?2
