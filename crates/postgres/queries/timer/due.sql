-- Timers of a kind ($3) that are due, for some namespace ($4) or tag ($5, $6), and when the next
-- one will be.
select d.partition_key, d.execution_id, n.next_ms
from (select min(due_ms) as next_ms from ff_timer where kind = $3 and due_ms > $1) n
left join (
    select t.partition_key, t.execution_id, t.due_ms from ff_timer t
    where t.kind = $3 and t.due_ms <= $1
        and ($4::text is null or exists (
            select 1 from ff_exec_core x
            where x.partition_key = t.partition_key and x.execution_id = t.execution_id
                and x.namespace = $4
        ))
        and ($5::text is null or exists (
            select 1 from ff_tag g
            where g.key = $5 and g.value = $6
                and g.partition_key = t.partition_key and g.execution_id = t.execution_id
        ))
    order by t.due_ms, t.partition_key, t.execution_id
    limit $2
) d on true
order by d.due_ms, d.partition_key, d.execution_id
