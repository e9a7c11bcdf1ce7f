-- The signals that may count and arrived at waitpoints of an execution which are not closed.
select
    s.partition_key, s.execution_id, s.signal_id, s.waitpoint_id, s.number, s.name,
    s.source_type, s.source_identity, s.subject
from ff_signal s
where s.partition_key = ?1 and s.execution_id = ?2
    and s.effect in ('appended_to_waitpoint', 'buffered_for_pending_waitpoint')
    and exists (
        select 1 from ff_waitpoint w
        where w.partition_key = s.partition_key and w.execution_id = s.execution_id
            and w.waitpoint_id = s.waitpoint_id and w.state <> 'closed'
    )
order by s.number
