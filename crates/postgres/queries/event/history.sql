-- The feed of one execution ($12, $13), perhaps only what concerns a flow ($14); the other
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
where e.seq > $3 and e.seq <= $4
    and pg_visible_in_snapshot(e.xid, $2::text::pg_snapshot)
    and (e.seq > $11 or not pg_visible_in_snapshot(e.xid, $1::text::pg_snapshot))
    and ($5::text[] is null or e.kind = any($5))
    and ($6::text is null or e.namespace = $6)
    and ($7::text is null or e.lane_id = $7)
    and e.partition_key = $12::smallint and e.execution_id = $13::uuid
    and e.lane_id is not null
    and ($14::uuid is null or e.flow_id = $14)
    and ($8::text is null
        or exists (
            select 1 from ff_tag g
            where g.key = $8 and g.value = $9
                and g.partition_key = x.partition_key and g.execution_id = x.execution_id
        )
    )
order by e.seq
limit $10::bigint
