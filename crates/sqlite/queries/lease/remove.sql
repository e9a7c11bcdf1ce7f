-- Ends a lease.
delete from ff_lease where partition_key = ?1 and execution_id = ?2
