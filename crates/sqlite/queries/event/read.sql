-- The feed after a number, filtered by kinds (a JSON list), namespace, lane and tag.
-- Kind and tags are the current ones of the execution, or of the flow: what is in no lane happened
-- to a flow. A flow may have the id of the execution it began with.
select
    e.seq,
    e.partition_key, e.execution_id, e.at_ms, e.namespace, e.lane_id, e.flow_id, e.kind,
    e.attempt_index, e.outcome, e.reason, e.failure_category, e.worker_id, e.worker_instance_id,
    e.retry_at_ms, e.priority_from, e.priority_to, e.members, e.signal_id, e.waitpoint_id,
    e.source_identity, e.subject, x.kind as execution_kind, coalesce(x.tags, f.tags) as tags
from ff_event e
left join ff_exec_core x
    on e.lane_id is not null
        and x.partition_key = e.partition_key and x.execution_id = e.execution_id
left join ff_flow_core f
    on e.lane_id is null and f.partition_key = e.partition_key and f.flow_id = e.flow_id
where e.seq > ?1 and coalesce(x.execution_id, f.flow_id) is not null
    and (?2 is null or e.kind in (select value from json_each(?2)))
    and (?3 is null or e.namespace = ?3)
    and (?4 is null or e.lane_id = ?4)
    and (?7 is null
        or exists (
            select 1 from ff_tag g
            where g.key = ?7 and g.value = ?8
                and g.partition_key = x.partition_key and g.execution_id = x.execution_id
        )
        or exists (
            select 1 from json_each(f.tags) where json_each.key = ?7 and json_each.value = ?8
        ))
order by e.seq
limit ?10
