-- Completes executions at $3, in one statement that is its own transaction: their rows with small
-- results, their leases, when they are to be removed, and what happened, made of the rows themselves, in
-- this order ("turn"). Executions are locked before their leases, as everywhere. If one is not as it was
-- decided on ($2), it divides by zero, and nothing is done: no number is taken before both are held, and
-- what nobody reads is written last.
with put as (
    update ff_exec_core x set
        version = x.version + 1, epoch = i.epoch, updated_at_ms = $3::bigint,
        phase = 'terminal', outcome = 'success', lease_end = 'completed',
        attempt_ran_ms = i.attempt_ran_ms, claim_id = null, resumed = null,
        timeout_at_ms = null, failure_reason = null, failure_category = null,
        has_result = i.result is not null, result_digest = i.result_digest,
        terminal_at_ms = $3,
        retain_until_ms = i.retain_until_ms,
        result_attempt = case when i.result is null then x.result_attempt else x.attempt_index end,
        result_encoding = coalesce(i.result_encoding, x.result_encoding),
        result = coalesce(i.result, x.result)
    from unnest($1::ff_completed_row_7[]) i
    where x.ctid = i.at and x.partition_key = i.partition_key
        and x.execution_id = i.execution_id and x.version = i.before and x.epoch < i.epoch
    returning
        i.turn, x.partition_key, x.execution_id, x.namespace, x.lane_id, x.attempt_index,
        x.retain_until_ms, i.claim_id, i.epoch - 1 as lease_epoch, i.until_ms
), done as (
    delete from ff_lease l using put
    where l.claim_id = put.claim_id and l.partition_key = put.partition_key
        and l.execution_id = put.execution_id and l.epoch = put.lease_epoch
        and l.until_ms = put.until_ms
    returning 1
), held as materialized (
    select 1 / (
        (select count(*) from put) = $2::bigint and (select count(*) from done) = $2
    )::integer as held
), later as (
    insert into ff_retention (due_ms, partition_keys, execution_ids)
    select put.retain_until_ms, array_agg(put.partition_key), array_agg(put.execution_id)
    from put group by put.retain_until_ms
)
insert into ff_event (
    partition_key, execution_id, at_ms, namespace, lane_id, kind, attempt_index, outcome
)
select
    put.partition_key, put.execution_id, $3, put.namespace, put.lane_id,
    'completion', put.attempt_index, 'success'
from put where (select held from held) = 1
order by put.turn
