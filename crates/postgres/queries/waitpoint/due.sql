-- Pending waitpoints that expire, for some namespace ($3) or tag ($4, $5) of the execution, and
-- when the next one will.
select d.partition_key, d.execution_id, d.waitpoint_id, n.next_ms
from (
    select min(expires_at_ms) as next_ms from ff_waitpoint
    where state = 'pending' and expires_at_ms > $1
) n
left join (
    select w.partition_key, w.execution_id, w.waitpoint_id, w.expires_at_ms from ff_waitpoint w
    where w.state = 'pending' and w.expires_at_ms <= $1
        and ($3::text is null or exists (
            select 1 from ff_exec_core x
            where x.partition_key = w.partition_key and x.execution_id = w.execution_id
                and x.namespace = $3
        ))
        and ($4::text is null or exists (
            select 1 from ff_tag g
            where g.key = $4 and g.value = $5
                and g.partition_key = w.partition_key and g.execution_id = w.execution_id
        ))
    order by w.expires_at_ms, w.partition_key, w.execution_id, w.waitpoint_id
    limit $2
) d on true
order by d.expires_at_ms, d.partition_key, d.execution_id, d.waitpoint_id
