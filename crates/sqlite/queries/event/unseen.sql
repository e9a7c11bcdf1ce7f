-- Whether some durable consumer has yet to deal with an event of an execution.
select exists (
    select 1 from ff_event
    where partition_key = ?1 and execution_id = ?2 and seq > (select min(seq) from ff_consumer)
)
