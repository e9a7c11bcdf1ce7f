-- Closes the suspension of an execution that ended without it, if it is open.
update ff_suspension_current
set closed_at_ms = ?3, close_reason = 'cancelled', satisfied_by = '[]'
where partition_key = ?1 and execution_id = ?2 and closed_at_ms is null
