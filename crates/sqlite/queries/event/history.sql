-- The feed of one execution (?5, ?6), perhaps only what concerns a flow (?9); the other
-- parameters as in event/read.sql, which would have to look at every event to find these. What is
-- in no lane happened to a flow, which may have the id of the execution.
select
    e.seq,
    e.partition_key, e.execution_id, e.at_ms, e.namespace, e.lane_id, e.flow_id, e.kind,
    e.attempt_index, e.outcome, e.reason, e.failure_category, e.worker_id, e.worker_instance_id,
    e.retry_at_ms, e.priority_from, e.priority_to, e.members, e.signal_id, e.waitpoint_id,
    e.source_identity, e.subject, x.kind as execution_kind, x.tags
from ff_event e
join ff_exec_core x
    on x.partition_key = e.partition_key and x.execution_id = e.execution_id
where e.seq > ?1
    and (?2 is null or e.kind in (select value from json_each(?2)))
    and (?3 is null or e.namespace = ?3)
    and (?4 is null or e.lane_id = ?4)
    and e.partition_key = ?5 and e.execution_id = ?6
    and e.lane_id is not null
    and (?9 is null or e.flow_id = ?9)
    and (?7 is null
        or exists (
            select 1 from ff_tag g
            where g.key = ?7 and g.value = ?8
                and g.partition_key = x.partition_key and g.execution_id = x.execution_id
        )
    )
order by e.seq
limit ?10
