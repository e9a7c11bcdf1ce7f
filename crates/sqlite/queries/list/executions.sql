-- Executions by namespace, kind, stored state and time of creation (from ?10), newest first,
-- before a place (?11, ?12, ?13). ?6 asks for those that wait (1) or do not (0) at ?7, ?15 for
-- those that others of their flow hold back (1) or do not (0). A lane or a tag is looked up by
-- the statements beside this one, which take the same parameters.
select x.partition_key, x.execution_id from ff_exec_core x
where ?1 is null and ?8 is null
    and (?2 is null or x.namespace = ?2)
    and (?3 is null or x.kind = ?3)
    and (?4 is null or x.phase = ?4)
    and (?5 is null or x.outcome = ?5)
    and (?6 is null or ?6 = (x.held_at_ms is null and coalesce(x.wait_until_ms > ?7, 0)))
    and (?15 is null or x.gated = ?15)
    and x.created_at_ms >= ?10
    and (x.created_at_ms, x.partition_key, x.execution_id) < (?11, ?12, ?13)
order by x.created_at_ms desc, x.partition_key desc, x.execution_id desc
limit ?14
