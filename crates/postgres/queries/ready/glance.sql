-- The same as ready/head.sql without locking anything: good enough while nobody else claims here, and
-- whoever takes what is found checks that it is still as it was.
select
    r.queue, r.rank, r.turn_ms, r.places, r.place, x.ctid as at,
    x.partition_key, x.execution_id, x.version, x.namespace, x.lane_id, x.kind, x.creator,
    x.policy, x.idempotency_key, x.fingerprint, x.created_at_ms, x.priority, x.tags,
    x.deadline_at_ms, x.epoch, x.attempts, x.retries, x.reclaims, x.replays,
    x.progress_percent, x.progress_message, x.progress_at_ms, x.flow_id, x.node, x.input_from,
    x.started_at_ms, x.updated_at_ms,
    x.phase, x.outcome, x.next_attempt, x.wait_until_ms, x.wait_reason, x.held_reason,
    x.held_at_ms, x.gated, x.lease_end, x.attempt_index, x.attempt_kind, x.worker_id,
    x.worker_instance_id, x.attempt_started_at_ms, x.attempt_ran_ms, x.resumed,
    x.timeout_at_ms, x.failure_reason, x.failure_category, x.has_result, x.cancelled_by,
    x.end_reason, x.terminal_at_ms, x.retain_until_ms,
    x.input_encoding as encoding, x.input_size as size, x.input as bytes
from (
    select
        r.queue, r.rank, r.turn_ms, r.partition_key, r.execution_id, r.place,
        count(*) over () as places
    from ff_queue q
    left join unnest(
        $3::bigint[], $4::integer[], $5::bigint[], $6::smallint[], $7::uuid[], $8::integer[],
        $9::bigint[], $10::smallint[], $11::uuid[]
    ) as f (queue, rank, turn_ms, partition_key, execution_id, rank_to, turn_to, partition_to,
        execution_to) on f.queue = q.queue
    cross join lateral (
        select r.queue, r.rank, r.turn_ms, r.partition_key, r.execution_id, r.ctid as place
        from ff_ready r
        where r.queue = q.queue
            and (r.rank, r.turn_ms, r.partition_key, r.execution_id) >= (
                coalesce(f.rank, 0), coalesce(f.turn_ms, 0), coalesce(f.partition_key, 0::smallint),
                coalesce(f.execution_id, '00000000-0000-0000-0000-000000000000')
            )
            and (r.rank, r.turn_ms, r.partition_key, r.execution_id) <= (
                coalesce(f.rank_to, 2147483647), coalesce(f.turn_to, 9223372036854775807),
                coalesce(f.partition_to, 32767::smallint),
                coalesce(f.execution_to, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
            )
        order by r.rank, r.turn_ms, r.partition_key, r.execution_id
        limit $12::bigint
    ) r
    where q.lane_id = any($1::text[]) and q.capabilities <@ $2::text[]
    order by r.rank, r.turn_ms, r.partition_key, r.execution_id
) r
join ff_exec_core x
    on x.partition_key = r.partition_key and x.execution_id = r.execution_id
where x.phase = 'runnable'
order by r.rank, r.turn_ms, r.partition_key, r.execution_id
limit $13::bigint
