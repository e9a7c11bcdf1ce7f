-- Removes the events of an execution, or of a flow (?3), whose events are in no lane: a flow may
-- have the id of an execution.
delete from ff_event
where partition_key = ?1 and execution_id = ?2 and (lane_id is null) = ?3
