-- Moves delays that are over to their queues; says where to, when the next one will be over, and
-- whether some that are over were left because others hold them.
with due as materialized (
    select ctid, queue, rank, turn_ms, partition_key, execution_id from ff_timer
    where kind = 'delay' and due_ms <= $1
    order by due_ms, partition_key, execution_id
    limit $2
    for update skip locked
), gone as (
    delete from ff_timer where ctid = any(array(select ctid from due))
), moved as (
    insert into ff_ready (queue, rank, turn_ms, partition_key, execution_id)
    select queue, rank, turn_ms, partition_key, execution_id from due
    returning queue, rank, turn_ms, partition_key, execution_id
)
select
    n.next_ms, n.late, coalesce(array_agg(m.queue) filter (where m.queue is not null), '{}') as queues,
    coalesce(array_agg(m.rank) filter (where m.queue is not null), '{}') as ranks,
    coalesce(array_agg(m.turn_ms) filter (where m.queue is not null), '{}') as turns,
    coalesce(array_agg(m.partition_key) filter (where m.queue is not null), '{}') as partitions,
    coalesce(array_agg(m.execution_id) filter (where m.queue is not null), '{}') as executions
from (
    select
        (select min(due_ms) from ff_timer where kind = 'delay' and due_ms > $1) as next_ms,
        (
            select count(*) from (
                select from ff_timer where kind = 'delay' and due_ms <= $1 limit $2
            ) over
        ) > (select count(*) from due) as late
) n
left join moved m on true
group by n.next_ms, n.late
