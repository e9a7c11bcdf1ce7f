-- Takes executions out of their queues, if they are there.
delete from ff_ready r using unnest($1::ff_ready_row[]) i
where r.queue = i.queue and r.rank = i.rank and r.turn_ms = i.turn_ms
    and r.partition_key = i.partition_key and r.execution_id = i.execution_id
