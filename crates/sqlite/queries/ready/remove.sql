-- Takes an execution out of its queue, if it is there.
delete from ff_ready
where queue = ?1 and rank = ?2 and turn_ms = ?3 and partition_key = ?4 and execution_id = ?5
