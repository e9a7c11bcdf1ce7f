-- Executions by lane, namespace, kind, stored state, tag and time of creation, newest first,
-- after a place (?12, ?13, ?14). ?6 asks for those that wait (1) or do not (0) at ?7.
select x.partition_key, x.execution_id from ff_exec_core x
where (?1 is null or x.lane_id = ?1)
    and (?2 is null or x.namespace = ?2)
    and (?3 is null or x.kind = ?3)
    and (?4 is null or x.phase = ?4)
    and (?5 is null or x.outcome = ?5)
    and (?6 is null or ?6 = (x.held_at_ms is null and coalesce(x.wait_until_ms > ?7, 0)))
    and (?8 is null or exists (
        select 1 from ff_tag g
        where g.key = ?8 and g.value = ?9
            and g.partition_key = x.partition_key and g.execution_id = x.execution_id
    ))
    and (?10 is null or x.created_at_ms >= ?10)
    and (?11 is null or x.created_at_ms < ?11)
    and (?12 is null
        or (x.created_at_ms, x.partition_key, x.execution_id) < (?12, ?13, ?14))
order by x.created_at_ms desc, x.partition_key desc, x.execution_id desc
limit ?15
