-- Has the sweep look at leases at another time. One that moved since it was read divides by zero,
-- and the batch is undone.
with done as (
    update ff_lease l set
        renewed_at_ms = i.renewed_at_ms, until_ms = i.until_ms, check_at_ms = i.check_at_ms
    from unnest($1::ff_lease_row[]) i
    where l.claim_id = i.claim_id and l.partition_key = i.partition_key
        and l.execution_id = i.execution_id and l.epoch = i.epoch and l.until_ms = i.before_ms
    returning 1
)
select 1 / (count(*) = $2::bigint)::integer from done
