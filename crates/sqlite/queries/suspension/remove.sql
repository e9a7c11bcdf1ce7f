-- Removes the suspension of an execution.
delete from ff_suspension_current where partition_key = ?1 and execution_id = ?2
