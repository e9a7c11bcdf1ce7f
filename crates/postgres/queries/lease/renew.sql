-- Renews leases: touches no column that an index holds. One that moved since it
-- was read divides by zero, and the batch is undone.
with done as (
    update ff_lease l set renewed_at_ms = i.renewed_at_ms, until_ms = i.until_ms
    from unnest(
        $1::smallint[], $2::uuid[], $3::bigint[], $4::uuid[], $5::bigint[], $6::bigint[],
        $7::bigint[]
    ) as i (
        partition_key, execution_id, epoch, claim_id, before, renewed_at_ms, until_ms
    )
    where l.claim_id = i.claim_id and l.partition_key = i.partition_key
        and l.execution_id = i.execution_id and l.epoch = i.epoch and l.until_ms = i.before
    returning 1
)
select 1 / (count(*) = $8::bigint)::integer from done
