-- Loads the executions that lock.sql has locked, with their leases.
with held as materialized (
    select f.partition_key, f.flow_id from ff_flow_core f
    where (f.partition_key, f.flow_id) in (
        select i.partition_key, i.flow_id
        from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
    )
    order by f.partition_key, f.flow_id
    for no key update of f skip locked
), wanted as materialized (
    select i.partition_key, i.execution_id
    from unnest($4::smallint[], $5::uuid[]) as i (partition_key, execution_id)
    union
    select e.partition_key, e.downstream_id
    from unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, upstream_id)
    join held h on h.partition_key = i.partition_key and h.flow_id = i.flow_id
    cross join lateral (
        select e.partition_key, e.flow_id, e.downstream_id from ff_edge e
        where e.partition_key = i.partition_key and e.flow_id = i.flow_id
            and e.upstream_id = i.upstream_id and e.state = 'unsatisfied'
        offset 0
    ) e
)
select
    x.partition_key, x.execution_id, x.version, x.namespace, x.lane_id, x.kind, x.creator,
    x.policy, x.idempotency_key, x.fingerprint, x.created_at_ms, x.priority, x.tags,
    x.deadline_at_ms, x.epoch, x.attempts, x.retries, x.reclaims, x.replays,
    x.progress_percent, x.progress_message, x.progress_at_ms, x.flow_id, x.node, x.input_from,
    x.started_at_ms, x.updated_at_ms,
    x.phase, x.outcome, x.next_attempt, x.wait_until_ms, x.wait_reason, x.held_reason,
    x.held_at_ms, x.gated, x.lease_end, x.attempt_index, x.attempt_kind, x.worker_id,
    x.worker_instance_id, x.attempt_started_at_ms, x.attempt_ran_ms, x.resumed,
    x.timeout_at_ms, x.failure_reason, x.failure_category, x.has_result, x.result_digest, x.cancelled_by,
    x.end_reason, x.terminal_at_ms, x.retain_until_ms, l.epoch as lease_epoch, l.claim_id,
    l.acquired_at_ms, l.renewed_at_ms, l.until_ms, l.check_at_ms
from wanted w
cross join lateral (
    select x.* from ff_exec_core x
    where x.partition_key = w.partition_key and x.execution_id = w.execution_id
    offset 0
) x
left join ff_lease l
    on l.claim_id = x.claim_id and l.partition_key = x.partition_key
    and l.execution_id = x.execution_id
