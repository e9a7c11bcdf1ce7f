-- Removes the events of executions, or of flows ($3), whose events are in no lane: a flow may have
-- the id of an execution.
delete from ff_event t using unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
where t.partition_key = i.partition_key and t.execution_id = i.execution_id
    and (t.lane_id is null) = $3::boolean
