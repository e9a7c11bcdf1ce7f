-- Remembers what repeated suspensions are answered with, over those that have expired. Their
-- executions were locked before.
insert into ff_suspend_key (
    partition_key, execution_id, idempotency_key, suspension_id, waitpoints, already_satisfied,
    expires_at_ms
)
select * from unnest($1::ff_suspend_key_row[])
on conflict (partition_key, execution_id, idempotency_key) do update set
    suspension_id = excluded.suspension_id, waitpoints = excluded.waitpoints,
    already_satisfied = excluded.already_satisfied, expires_at_ms = excluded.expires_at_ms
