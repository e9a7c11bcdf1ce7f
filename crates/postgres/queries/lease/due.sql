-- Leases filed as due, for some namespace ($3) or tag ($4, $5), and when the next one will be.
select d.partition_key, d.execution_id, d.epoch, n.next_ms
from (select min(check_at_ms) as next_ms from ff_lease where check_at_ms > $1) n
left join (
    select l.partition_key, l.execution_id, l.epoch, l.check_at_ms from ff_lease l
    where l.check_at_ms <= $1
        and ($3::text is null or exists (
            select 1 from ff_exec_core x
            where x.partition_key = l.partition_key and x.execution_id = l.execution_id
                and x.namespace = $3
        ))
        and ($4::text is null or exists (
            select 1 from ff_tag g
            where g.key = $4 and g.value = $5
                and g.partition_key = l.partition_key and g.execution_id = l.execution_id
        ))
    order by l.check_at_ms, l.partition_key, l.execution_id
    limit $2
) d on true
order by d.check_at_ms, d.partition_key, d.execution_id
