-- Grants leases. Their claims are locked until this is committed, as lease/serving.sql does; if another
-- transaction serves one of them, it divides by zero, and the batch is undone.
insert into ff_lease (
    partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
    check_at_ms
)
select
    i.partition_key, i.execution_id, i.epoch, i.claim_id, i.acquired_at_ms, i.renewed_at_ms,
    i.until_ms, i.check_at_ms
from unnest($1::ff_lease_row[]) i
where 1 / pg_try_advisory_xact_lock(
    hashtextextended(current_schema() || i.claim_id::text, 0)
)::integer = 1
