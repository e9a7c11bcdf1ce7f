-- The same as timer/retention.sql for executions that were completed in batches. One that was replayed
-- stays listed with its batch, and is passed over; so is one that has since joined a flow, which it goes
-- with.
select d.partition_key, d.execution_id, d.due_ms, n.next_ms
from (select min(due_ms) as next_ms from ff_retention where due_ms > $1) n
left join (
    select t.partition_key, t.execution_id, r.due_ms
    from (
        select due_ms, partition_keys, execution_ids from ff_retention
        where due_ms <= $1 order by due_ms offset 0
    ) r
    cross join unnest(r.partition_keys, r.execution_ids) t (partition_key, execution_id)
    cross join lateral (
        select x.namespace from ff_exec_core x
        where x.partition_key = t.partition_key and x.execution_id = t.execution_id
            and x.retain_until_ms = r.due_ms and x.flow_id is null
        offset 0
    ) x
    where not exists (
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
        and ($3::text is null or x.namespace = $3)
        and ($4::text is null or exists (
            select 1 from ff_tag g
            where g.key = $4 and g.value = $5
                and g.partition_key = t.partition_key and g.execution_id = t.execution_id
        ))
    order by r.due_ms, t.partition_key, t.execution_id
    limit $2
) d on true
order by d.due_ms, d.partition_key, d.execution_id
