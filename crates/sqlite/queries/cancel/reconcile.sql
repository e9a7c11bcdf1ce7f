-- Groups whose siblings are to be cancelled, oldest first, whatever they say themselves; else as
-- cancel/due.sql.
select c.flow_id, c.downstream_id from ff_pending_cancel_groups c
where true
    and ((?2 is null and ?3 is null) or exists (
        select 1 from ff_flow_core f
        where f.partition_key = c.partition_key and f.flow_id = c.flow_id
            and (?2 is null or f.namespace = ?2)
            and (?3 is null or exists (
                select 1 from json_each(f.tags)
                where json_each.key = ?3 and json_each.value = ?4
            ))
    ))
order by c.enqueued_at_ms, c.partition_key, c.flow_id, c.downstream_id
limit ?1
