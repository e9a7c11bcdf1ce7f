-- Leases executions that are as they were created to one worker ($4, $5) under one claim ($6), at $3 and
-- until $7 (to be looked at from $8 on), locked or not, where they stand: their rows, their leases, and
-- their places gone from the queues. Says where they stand now. If one stood elsewhere or is not as it
-- was decided on ($2), it divides by zero, and the batch is undone.
with put as (
    update ff_exec_core x set
        version = x.version + 1, epoch = i.epoch, attempts = 1, started_at_ms = $3::bigint,
        updated_at_ms = $3, phase = 'active', next_attempt = null, attempt_index = 0,
        attempt_kind = 'initial', worker_id = $4::text, worker_instance_id = $5::text,
        attempt_started_at_ms = $3, attempt_ran_ms = 0, claim_id = $6::uuid, resumed = false
    from unnest($1::ff_first_row[]) i
    where x.ctid = i.at and x.partition_key = i.partition_key
        and x.execution_id = i.execution_id and x.version = i.before and x.epoch < i.epoch
    returning x.partition_key, x.execution_id, x.ctid as at, i.place, x.epoch
), lease as (
    insert into ff_lease (
        partition_key, execution_id, epoch, claim_id, acquired_at_ms, renewed_at_ms, until_ms,
        check_at_ms
    )
    select
        put.partition_key, put.execution_id, put.epoch, $6, $3, $3, $7::bigint, $8::bigint
    from put
), gone as (
    delete from ff_ready r using put
    where r.ctid = put.place and r.partition_key = put.partition_key
        and r.execution_id = put.execution_id
    returning 1
)
select
    put.partition_key, put.execution_id, put.at,
    1 / (n.put = $2::bigint and n.gone = $2)::integer as held
from (select (select count(*) from put) as put, (select count(*) from gone) as gone) n
left join put on true
