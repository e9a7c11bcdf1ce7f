-- Grants leases.
insert into ff_lease (
    partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
    check_at_ms
)
select * from unnest(
    $1::smallint[], $2::uuid[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::bigint[]
)
