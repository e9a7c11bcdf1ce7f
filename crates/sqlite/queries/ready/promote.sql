-- Copies delays that are over to their queues; timer/promoted.sql removes them.
insert into ff_ready (queue, rank, turn_ms, partition_key, execution_id)
select queue, rank, turn_ms, partition_key, execution_id from ff_timer
where kind = 'delay' and due_ms <= ?1
order by due_ms, partition_key, execution_id
limit ?2
