-- Records steps ($4) under leases ($1) that must hold now ($2), in one statement that is its own
-- transaction. Renewing them meanwhile does no harm; ending them waits. If one of them ($3) does not
-- hold, it divides by zero, and nothing is done.
with held as materialized (
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
)
insert into ff_step (
    partition_key, execution_id, number, attempt_index, kind, name, operation, outcome, time_ms,
    ran_ms, at_ms, encoding, bytes
)
select
    i.partition_key, i.execution_id, i.number, i.attempt_index, i.kind, i.name, i.operation,
    i.outcome, i.time_ms, i.ran_ms, i.at_ms, i.encoding, i.bytes
from unnest($4::ff_step_row_8[]) i where (select held from held) = 1
