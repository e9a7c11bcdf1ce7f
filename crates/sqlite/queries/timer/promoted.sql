-- Removes the delays that ready/promote.sql copied: the same rows, chosen the same way.
delete from ff_timer
where (kind, due_ms, partition_key, execution_id) in (
    select kind, due_ms, partition_key, execution_id from ff_timer
    where kind = 'delay' and due_ms <= ?1
    order by due_ms, partition_key, execution_id
    limit ?2
)
