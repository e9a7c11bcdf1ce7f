-- Executions of a lane (?1), perhaps with a tag (?8, ?9); else as list/executions.sql.
select x.partition_key, x.execution_id from ff_exec_core x
where x.lane_id = ?1
    and (?2 is null or x.namespace = ?2)
    and (?3 is null or x.kind = ?3)
    and (?4 is null or x.phase = ?4)
    and (?5 is null or x.outcome = ?5)
    and (?6 is null or ?6 = (x.held_at_ms is null and coalesce(x.wait_until_ms > ?7, 0)))
    and (?15 is null or x.gated = ?15)
    and (?8 is null or exists (
        select 1 from ff_tag g
        where g.key = ?8 and g.value = ?9
            and g.partition_key = x.partition_key and g.execution_id = x.execution_id
    ))
    and x.created_at_ms >= ?10
    and (x.created_at_ms, x.partition_key, x.execution_id) < (?11, ?12, ?13)
order by x.created_at_ms desc, x.partition_key desc, x.execution_id desc
limit ?14
