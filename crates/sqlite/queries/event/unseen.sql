-- Whether some durable consumer has yet to deal with an event of an execution, or of a flow (?3),
-- whose own events are in no lane: a flow may have the id of an execution.
select exists (
    select 1 from ff_event
    where partition_key = ?1 and execution_id = ?2 and (lane_id is null) = ?3
        and seq > (select min(seq) from ff_consumer)
)
