-- The feed after a number, filtered by kinds (a JSON list), namespace, lane and tag.
-- Kind and tags are the execution's current ones.
select
    e.seq,
    e.partition_key, e.execution_id, e.at_ms, e.namespace, e.lane_id, e.kind, e.attempt_index,
    e.outcome, e.reason, e.failure_category, e.worker_id, e.worker_instance_id, e.retry_at_ms,
    e.priority_from, e.priority_to, x.kind as execution_kind, x.tags
from ff_event e
join ff_exec_core x on x.partition_key = e.partition_key and x.execution_id = e.execution_id
where e.seq > ?1
    and (?2 is null or e.kind in (select value from json_each(?2)))
    and (?3 is null or e.namespace = ?3)
    and (?4 is null or e.lane_id = ?4)
    and (?7 is null or exists (
        select 1 from ff_tag g
        where g.key = ?7 and g.value = ?8
            and g.partition_key = e.partition_key and g.execution_id = e.execution_id
    ))
order by e.seq
limit ?9
