-- Finished executions whose time is up and whose events every durable consumer has dealt with,
-- for some namespace (?3) or tag (?4, ?5). What is in no lane happened to a flow, which may have the
-- id of the execution and goes by itself.
select t.partition_key, t.execution_id from ff_timer t
where t.kind = 'retention' and t.due_ms <= ?1
    and not exists (
        select 1 from ff_event e
        where e.partition_key = t.partition_key and e.execution_id = t.execution_id
            and e.lane_id is not null
            and e.seq > (select min(seq) from ff_consumer)
    )
    and (?3 is null or exists (
        select 1 from ff_exec_core x
        where x.partition_key = t.partition_key and x.execution_id = t.execution_id
            and x.namespace = ?3
    ))
    and (?4 is null or exists (
        select 1 from ff_tag g
        where g.key = ?4 and g.value = ?5
            and g.partition_key = t.partition_key and g.execution_id = t.execution_id
    ))
order by t.due_ms, t.partition_key, t.execution_id
limit ?2
