-- Some signals ($3) of executions, in the order of their arrival.
select
    s.partition_key, s.execution_id, s.signal_id, s.waitpoint_id, s.number, s.name, s.category,
    s.source_type, s.source_identity, s.subject, s.correlation_id, s.idempotency_key,
    s.dedup_until_ms, s.created_at_ms, s.accepted_at_ms, s.encoding, s.payload, s.effect
from unnest($1::smallint[], $2::uuid[], $3::uuid[])
    as i (partition_key, execution_id, signal_id)
join ff_signal s
    on s.partition_key = i.partition_key and s.execution_id = i.execution_id
    and s.signal_id = i.signal_id
order by s.number
