-- Leases filed as due, for some namespace (?3) or tag (?4, ?5).
select l.partition_key, l.execution_id, l.epoch from ff_lease l
where l.check_at_ms <= ?1
    and (?3 is null or exists (
        select 1 from ff_exec_core x
        where x.partition_key = l.partition_key and x.execution_id = l.execution_id
            and x.namespace = ?3
    ))
    and (?4 is null or exists (
        select 1 from ff_tag g
        where g.key = ?4 and g.value = ?5
            and g.partition_key = l.partition_key and g.execution_id = l.execution_id
    ))
order by l.check_at_ms, l.partition_key, l.execution_id
limit ?2
