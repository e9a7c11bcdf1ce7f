-- Remembers a suspension under its key, over one that was forgotten.
insert into ff_suspend_key (
    partition_key, execution_id, idempotency_key, suspension_id, waitpoints, already_satisfied,
    expires_at_ms
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (partition_key, execution_id, idempotency_key) do update set
    suspension_id = excluded.suspension_id, waitpoints = excluded.waitpoints,
    already_satisfied = excluded.already_satisfied, expires_at_ms = excluded.expires_at_ms
