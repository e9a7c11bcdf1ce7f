-- Locks leases ($1) that must hold now ($2) and stay as they are but for being renewed. If one of
-- them ($3) does not hold, it divides by zero, and the batch is undone.
select 1 / ((
    select count(*) from (
        select 1 from unnest($1::ff_lease_row[]) i
        join ff_lease l
            on l.claim_id = i.claim_id and l.partition_key = i.partition_key
            and l.execution_id = i.execution_id
        where l.epoch = i.epoch and l.until_ms > $2::bigint
        for key share of l
    ) l
) = $3::bigint)::integer as held
