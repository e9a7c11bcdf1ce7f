-- Remembers keys, over those whose window has passed ($7). A key that still stands for something
-- else divides by zero, and the batch is undone.
with put as (
    insert into ff_idempotency (
        namespace, key, partition_key, execution_id, fingerprint, expires_at_ms
    )
    select * from unnest(
        $1::text[], $2::text[], $3::smallint[], $4::uuid[], $5::bytea[], $6::bigint[]
    )
    on conflict (namespace, key) do update set
        partition_key = excluded.partition_key, execution_id = excluded.execution_id,
        fingerprint = excluded.fingerprint, expires_at_ms = excluded.expires_at_ms
    where ff_idempotency.expires_at_ms <= $7
    returning 1
)
select 1 / (count(*) = $8::bigint)::integer from put
