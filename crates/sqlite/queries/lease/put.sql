-- Grants or renews a lease.
insert into ff_lease (
    partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
    check_at_ms
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (partition_key, execution_id) do update set
    epoch = excluded.epoch, claim_id = excluded.claim_id,
    acquired_at_ms = excluded.acquired_at_ms, renewed_at_ms = excluded.renewed_at_ms,
    until_ms = excluded.until_ms, check_at_ms = excluded.check_at_ms
