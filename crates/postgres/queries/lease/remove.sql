-- Ends leases. One that moved since it was read divides by zero, and the batch is undone.
with done as (
    delete from ff_lease l
    using unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::uuid[], $5::bigint[])
        as i (partition_key, execution_id, epoch, claim_id, before)
    where l.claim_id = i.claim_id and l.partition_key = i.partition_key
        and l.execution_id = i.execution_id and l.epoch = i.epoch and l.until_ms = i.before
    returning 1
)
select 1 / (count(*) = $6::bigint)::integer from done
