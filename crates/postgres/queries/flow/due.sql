-- Flows whose time is up and whose own events every durable consumer has dealt with, for some
-- namespace ($3) or tag ($4, $5), and when the time of the next one will be up. What is in a lane
-- happened to an execution, which may have the id of the flow.
select d.flow_id, n.next_ms
from (select min(trim_at_ms) as next_ms from ff_flow_core where trim_at_ms > $1) n
left join (
    select f.partition_key, f.flow_id, f.trim_at_ms from ff_flow_core f
    where f.trim_at_ms <= $1
        and not exists (
            select 1 from ff_event e cross join ff_consumer c
            where e.partition_key = f.partition_key and e.execution_id = f.flow_id
                and e.lane_id is null
                and not (
                    (e.seq <= c.base_seq and pg_visible_in_snapshot(e.xid, c.base))
                    or (
                        e.seq <= least(c.after_seq, c.upto_seq)
                        and pg_visible_in_snapshot(e.xid, c.upto)
                    )
                )
        )
        and ($3::text is null or f.namespace = $3)
        and ($4::text is null or f.tags::jsonb ->> $4 = $5::text)
    order by f.trim_at_ms, f.partition_key, f.flow_id
    limit $2
) d on true
order by d.trim_at_ms, d.partition_key, d.flow_id
