-- The signals that may count and arrived at waitpoints of executions which are not closed, as far
-- as a condition looks at them.
select
    s.partition_key, s.execution_id, s.signal_id, s.waitpoint_id, s.number, s.name,
    s.source_type, s.source_identity, s.subject
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
join ff_signal s
    on s.partition_key = i.partition_key and s.execution_id = i.execution_id
where s.effect in ('appended_to_waitpoint', 'buffered_for_pending_waitpoint')
    and exists (
        select 1 from ff_waitpoint w
        where w.partition_key = s.partition_key and w.execution_id = s.execution_id
            and w.waitpoint_id = s.waitpoint_id and w.state <> 'closed'
        offset 0
    )
