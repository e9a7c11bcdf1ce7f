-- Closes the waitpoints that an execution waited at when it ended.
update ff_waitpoint
set state = 'closed', closed_at_ms = ?3, close_reason = 'cancelled', expires_at_ms = null
where partition_key = ?1 and execution_id = ?2 and state = 'active'
