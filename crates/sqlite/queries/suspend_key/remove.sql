-- Removes what the suspensions of an execution are remembered under.
delete from ff_suspend_key where partition_key = ?1 and execution_id = ?2
