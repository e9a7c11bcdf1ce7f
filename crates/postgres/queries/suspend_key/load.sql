-- What suspensions under keys ($3) are answered with.
select
    k.partition_key, k.execution_id, k.idempotency_key, k.suspension_id, k.waitpoints,
    k.already_satisfied, k.expires_at_ms
from unnest($1::smallint[], $2::uuid[], $3::text[])
    as i (partition_key, execution_id, idempotency_key)
join ff_suspend_key k
    on k.partition_key = i.partition_key and k.execution_id = i.execution_id
    and k.idempotency_key = i.idempotency_key
