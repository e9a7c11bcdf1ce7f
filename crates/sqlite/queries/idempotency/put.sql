-- Remembers a key, over one whose window has passed.
insert into ff_idempotency (
    namespace, key, partition_key, execution_id, fingerprint, expires_at_ms
) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (namespace, key) do update set
    partition_key = excluded.partition_key, execution_id = excluded.execution_id,
    fingerprint = excluded.fingerprint, expires_at_ms = excluded.expires_at_ms
