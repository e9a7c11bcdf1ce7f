-- Timers of a kind that are due, for some namespace (?4) or tag (?5, ?6).
select t.partition_key, t.execution_id from ff_timer t
where t.kind = ?3 and t.due_ms <= ?1
    and (?4 is null or exists (
        select 1 from ff_exec_core x
        where x.partition_key = t.partition_key and x.execution_id = t.execution_id
            and x.namespace = ?4
    ))
    and (?5 is null or exists (
        select 1 from ff_tag g
        where g.key = ?5 and g.value = ?6
            and g.partition_key = t.partition_key and g.execution_id = t.execution_id
    ))
order by t.due_ms, t.partition_key, t.execution_id
limit ?2
