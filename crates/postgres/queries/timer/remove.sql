-- Takes timers back, if they are there.
delete from ff_timer t using unnest($1::ff_timer_row[]) i
where t.kind = i.kind and t.due_ms = i.due_ms and t.partition_key = i.partition_key
    and t.execution_id = i.execution_id
