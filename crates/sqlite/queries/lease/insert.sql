-- Grants a lease.
insert into ff_lease (
    partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
    check_at_ms
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
