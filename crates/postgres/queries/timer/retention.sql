-- Finished executions whose time is up and whose events every durable consumer has dealt with,
-- for some namespace ($3) or tag ($4, $5), and when the next one's time will be up. What is in no
-- lane happened to a flow, which may have the id of the execution and goes by itself.
select d.partition_key, d.execution_id, d.due_ms, n.next_ms
from (select min(due_ms) as next_ms from ff_timer where kind = 'retention' and due_ms > $1) n
left join (
    select t.partition_key, t.execution_id, t.due_ms from ff_timer t
    where t.kind = 'retention' and t.due_ms <= $1
        and not exists (
            select 1 from ff_event e cross join ff_consumer c
            where e.partition_key = t.partition_key and e.execution_id = t.execution_id
                and e.lane_id is not null
                and not (
                    (e.seq <= c.base_seq and pg_visible_in_snapshot(e.xid, c.base))
                    or (
                        e.seq <= least(c.after_seq, c.upto_seq)
                        and pg_visible_in_snapshot(e.xid, c.upto)
                    )
                )
        )
        and ($3::text is null or exists (
            select 1 from ff_exec_core x
            where x.partition_key = t.partition_key and x.execution_id = t.execution_id
                and x.namespace = $3
        ))
        and ($4::text is null or exists (
            select 1 from ff_tag g
            where g.key = $4 and g.value = $5
                and g.partition_key = t.partition_key and g.execution_id = t.execution_id
        ))
    order by t.due_ms, t.partition_key, t.execution_id
    limit $2
) d on true
order by d.due_ms, d.partition_key, d.execution_id
