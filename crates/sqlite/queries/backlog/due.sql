-- Flows that owe the end of members, oldest first, for some namespace (?2) or tag (?3, ?4).
select b.flow_id from ff_cancel_backlog b
where true
    and ((?2 is null and ?3 is null) or exists (
        select 1 from ff_flow_core f
        where f.partition_key = b.partition_key and f.flow_id = b.flow_id
            and (?2 is null or f.namespace = ?2)
            and (?3 is null or exists (
                select 1 from json_each(f.tags)
                where json_each.key = ?3 and json_each.value = ?4
            ))
    ))
order by b.requested_at_ms, b.partition_key, b.flow_id
limit ?1
