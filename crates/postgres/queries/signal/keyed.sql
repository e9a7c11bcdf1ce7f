-- The last signals under keys ($4) to waitpoints ($3) of executions.
select
    i.partition_key, i.execution_id, i.waitpoint_id, i.idempotency_key, s.signal_id,
    s.dedup_until_ms
from unnest($1::smallint[], $2::uuid[], $3::uuid[], $4::text[])
    as i (partition_key, execution_id, waitpoint_id, idempotency_key)
cross join lateral (
    select s.signal_id, s.dedup_until_ms from ff_signal s
    where s.partition_key = i.partition_key and s.execution_id = i.execution_id
        and s.waitpoint_id = i.waitpoint_id and s.idempotency_key = i.idempotency_key
    order by s.number desc
    limit 1
) s
