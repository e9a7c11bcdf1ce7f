-- Takes a timer back, if it is there.
delete from ff_timer
where kind = ?1 and due_ms = ?2 and partition_key = ?3 and execution_id = ?4
