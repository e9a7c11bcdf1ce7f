-- The heads of the queues of some lanes ($1) that suit a worker ($2), most urgent first, then
-- oldest, with their executions and small inputs; each locked, passing over what is locked or was
-- taken since. Of some queues ($3) it is known where they begin ($4 to $7): what lies before was
-- claimed and waits for vacuum. Of each queue, $8 rows are read; $9 are returned.
select
    r.queue, r.rank, r.turn_ms, r.place, x.ctid as at,
    x.partition_key, x.execution_id, x.version, x.namespace, x.lane_id, x.kind, x.creator,
    x.policy, x.idempotency_key, x.fingerprint, x.created_at_ms, x.priority, x.tags,
    x.deadline_at_ms, x.epoch, x.attempts, x.retries, x.reclaims, x.replays,
    x.progress_percent, x.progress_message, x.progress_at_ms, x.flow_id, x.node, x.input_from,
    x.started_at_ms, x.updated_at_ms,
    x.phase, x.outcome, x.next_attempt, x.wait_until_ms, x.wait_reason, x.held_reason,
    x.held_at_ms, x.gated, x.lease_end, x.attempt_index, x.attempt_kind, x.worker_id,
    x.worker_instance_id, x.attempt_started_at_ms, x.attempt_ran_ms, x.resumed,
    x.timeout_at_ms, x.failure_reason, x.failure_category, x.has_result, x.result_digest, x.cancelled_by,
    x.end_reason, x.terminal_at_ms, x.retain_until_ms,
    x.input_encoding as encoding, x.input_size as size, x.input as bytes
from (
    select r.queue, r.rank, r.turn_ms, r.partition_key, r.execution_id, r.place
    from ff_queue q
    left join unnest($3::bigint[], $4::integer[], $5::bigint[], $6::smallint[], $7::uuid[])
        as f (queue, rank, turn_ms, partition_key, execution_id) on f.queue = q.queue
    cross join lateral (
        select r.queue, r.rank, r.turn_ms, r.partition_key, r.execution_id, r.ctid as place
        from ff_ready r
        where r.queue = q.queue
            and (r.rank, r.turn_ms, r.partition_key, r.execution_id) >= (
                coalesce(f.rank, 0), coalesce(f.turn_ms, 0), coalesce(f.partition_key, 0::smallint),
                coalesce(f.execution_id, '00000000-0000-0000-0000-000000000000')
            )
        order by r.rank, r.turn_ms, r.partition_key, r.execution_id
        limit $8::bigint
    ) r
    where q.lane_id = any($1::text[]) and q.capabilities <@ $2::text[]
    order by r.rank, r.turn_ms, r.partition_key, r.execution_id
) r
join ff_exec_core x
    on x.partition_key = r.partition_key and x.execution_id = r.execution_id
where x.phase = 'runnable'
order by r.rank, r.turn_ms, r.partition_key, r.execution_id
limit $9::bigint
for no key update of x skip locked
