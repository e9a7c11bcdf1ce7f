-- Executions and everything that belongs to them.
--
-- Times are milliseconds since the Unix epoch, in columns ending in _ms. Ids are 16 bytes. The
-- checks mirror the states in ff-core: a column that belongs to one state is null in the others.

create table ff_exec_core (
    partition_key integer not null check (partition_key between 0 and 255),
    execution_id blob not null check (length(execution_id) = 16),
    version integer not null check (version > 0),
    -- fixed at creation
    namespace text not null,
    lane_id text not null,
    kind text not null,
    creator text not null,
    policy text check (policy is null or json_valid(policy)),
    idempotency_key text,
    fingerprint blob not null,
    created_at_ms integer not null,
    -- what may change in any state
    priority integer not null check (priority between 0 and 9000),
    tags text check (tags is null or json_valid(tags)),
    deadline_at_ms integer,
    epoch integer not null check (epoch >= 0),
    attempts integer not null check (attempts >= 0),
    retries integer not null check (retries >= 0),
    reclaims integer not null check (reclaims >= 0),
    replays integer not null check (replays >= 0),
    progress_percent integer check (progress_percent between 0 and 100),
    progress_message text,
    progress_at_ms integer,
    flow_id blob check (length(flow_id) = 16),
    node text,
    -- the member of the same flow whose result it is to work on
    input_from blob check (length(input_from) = 16),
    started_at_ms integer,
    updated_at_ms integer not null,
    -- where it stands
    phase text not null check (phase in ('runnable', 'active', 'suspended', 'terminal')),
    outcome text check (outcome in ('success', 'failed', 'cancelled', 'expired', 'skipped')),
    next_attempt text check (next_attempt in ('first', 'retry', 'reclaim', 'replay', 'resume')),
    wait_until_ms integer,
    wait_reason text check (wait_reason in ('delay', 'retry_backoff', 'resume_delay',
        'waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback',
        'waiting_for_tool_result', 'waiting_for_operator_review', 'paused_by_policy',
        'paused_by_budget', 'step_boundary', 'manual_pause')),
    held_reason text,
    held_at_ms integer,
    gated integer not null check (gated in (0, 1)),
    lease_end text check (lease_end in ('completed', 'failed', 'cancelled', 'delayed',
        'waiting', 'suspended', 'released', 'expired', 'revoked')),
    -- the attempt under way, interrupted, or the one it ended with
    attempt_index integer check (attempt_index >= 0),
    attempt_kind text check (attempt_kind in ('initial', 'retry', 'reclaim', 'replay')),
    worker_id text,
    worker_instance_id text,
    attempt_started_at_ms integer,
    attempt_ran_ms integer check (attempt_ran_ms >= 0),
    resumed integer check (resumed in (0, 1)),
    timeout_at_ms integer,
    failure_reason text,
    failure_category text,
    -- how it ended
    has_result integer check (has_result in (0, 1)),
    cancelled_by text check (cancelled_by in ('worker', 'operator', 'cancel_flow', 'engine',
        'system_timeout')),
    end_reason text,
    terminal_at_ms integer,
    retain_until_ms integer,
    primary key (partition_key, execution_id),
    check ((phase = 'runnable') = (next_attempt is not null)),
    check ((phase = 'active') = (resumed is not null)),
    check ((phase = 'active') = (epoch % 2 = 1)),
    check ((phase = 'terminal') = (outcome is not null)),
    check ((phase = 'terminal') = (terminal_at_ms is not null)),
    check ((phase = 'terminal') = (retain_until_ms is not null)),
    check (phase = 'runnable' or (held_at_ms is null and gated = 0)),
    check (phase in ('runnable', 'suspended') or wait_until_ms is null),
    -- what is suspended has a reason of its own, and a deadline perhaps
    check (phase = 'suspended' or (wait_until_ms is null) = (wait_reason is null)),
    check ((phase = 'suspended') = (coalesce(wait_reason, 'delay')
        not in ('delay', 'retry_backoff', 'resume_delay'))),
    check (phase <> 'suspended' or attempt_index is not null),
    check ((held_at_ms is null) = (held_reason is null)),
    check ((attempt_index is null) = (worker_instance_id is null)),
    check (flow_id is not null or node is null)
) strict, without rowid;

-- Listing newest first, over everything and inside a lane. Neither column ever changes.
create index ff_exec_core_created on ff_exec_core (created_at_ms, partition_key, execution_id);
create index ff_exec_core_lane
    on ff_exec_core (lane_id, created_at_ms, partition_key, execution_id);

-- The members of a flow, by id.
create index ff_exec_core_flow on ff_exec_core (partition_key, flow_id, execution_id)
    where flow_id is not null;

-- Leases stand beside their execution, so that renewing writes one short row. The sweep finds
-- them by check_at_ms, which renewing does not move: until_ms may be later, never earlier.
create table ff_lease (
    partition_key integer not null,
    execution_id blob not null,
    epoch integer not null check (epoch % 2 = 1),
    claim_id blob not null check (length(claim_id) = 16),
    acquired_at_ms integer not null,
    renewed_at_ms integer not null,
    until_ms integer not null,
    check_at_ms integer not null check (check_at_ms <= until_ms),
    primary key (partition_key, execution_id)
) strict, without rowid;

create index ff_lease_check on ff_lease (check_at_ms);
create index ff_lease_claim on ff_lease (claim_id);

-- Inputs and results, written once.
create table ff_payload (
    partition_key integer not null,
    execution_id blob not null,
    kind text not null check (kind in ('input', 'result')),
    attempt_index integer not null check (attempt_index >= 0),
    encoding text,
    bytes blob not null,
    primary key (partition_key, execution_id, kind, attempt_index)
) strict;

-- What executions have done so far, so that it is not done again.
create table ff_step (
    partition_key integer not null,
    execution_id blob not null,
    number integer not null check (number >= 0),
    attempt_index integer not null check (attempt_index >= 0),
    kind text not null check (kind in ('run', 'sleep', 'now', 'random', 'wait', 'waitpoint')),
    name text not null,
    ran_ms integer not null check (ran_ms >= 0),
    at_ms integer not null,
    encoding text,
    bytes blob not null,
    primary key (partition_key, execution_id, number)
) strict;

-- Attempts that ended without ending their execution, or before a replay.
create table ff_attempt (
    partition_key integer not null,
    execution_id blob not null,
    attempt_index integer not null check (attempt_index >= 0),
    kind text not null check (kind in ('initial', 'retry', 'reclaim', 'replay')),
    worker_id text not null,
    worker_instance_id text not null,
    started_at_ms integer not null,
    ended_at_ms integer not null,
    outcome text not null check (outcome in ('ended_success', 'ended_failure',
        'ended_cancelled', 'interrupted_reclaimed', 'ended_expired')),
    failure_reason text,
    failure_category text,
    primary key (partition_key, execution_id, attempt_index)
) strict, without rowid;

-- What a queue number stands for: a lane and a set of required capabilities.
create table ff_queue (
    queue integer not null primary key,
    lane_id text not null,
    capabilities text not null check (json_valid(capabilities))
) strict;

create index ff_queue_lane on ff_queue (lane_id);

-- What is claimable now, in claim order. Rows are inserted and deleted, never updated.
create table ff_ready (
    queue integer not null,
    rank integer not null,
    turn_ms integer not null,
    partition_key integer not null,
    execution_id blob not null,
    primary key (queue, rank, turn_ms, partition_key, execution_id)
) strict, without rowid;

-- What happens later. A delay carries its place in a queue, so that promoting it moves a row.
create table ff_timer (
    kind text not null check (kind in ('delay', 'attempt_timeout', 'deadline', 'suspension',
        'retention')),
    due_ms integer not null,
    partition_key integer not null,
    execution_id blob not null,
    queue integer,
    rank integer,
    turn_ms integer,
    primary key (kind, due_ms, partition_key, execution_id),
    check ((kind = 'delay') = (queue is not null))
) strict, without rowid;

create table ff_tag (
    key text not null,
    value text not null,
    partition_key integer not null,
    execution_id blob not null,
    primary key (key, value, partition_key, execution_id)
) strict, without rowid;

-- The feed. Numbers are never used twice, not even after the newest event was removed. What
-- happens to a flow stands under the flow's id and in no lane.
create table ff_event (
    seq integer primary key autoincrement,
    partition_key integer not null,
    execution_id blob not null,
    at_ms integer not null,
    namespace text not null,
    lane_id text,
    flow_id blob check (length(flow_id) = 16),
    kind text not null check (kind in ('completion', 'attempt_failed', 'lease_expired',
        'lease_revoked', 'lease_reclaimed', 'priority_changed', 'replayed', 'suspended',
        'signal', 'resumed', 'escalated', 'held', 'unheld', 'flow_cancel_requested',
        'flow_ended', 'flow_reopened')),
    attempt_index integer,
    outcome text,
    reason text,
    failure_category text,
    worker_id text,
    worker_instance_id text,
    retry_at_ms integer,
    priority_from integer,
    priority_to integer,
    members integer check (members >= 0),
    signal_id blob check (length(signal_id) = 16),
    waitpoint_id blob check (length(waitpoint_id) = 16),
    source_identity text,
    subject text,
    check ((lane_id is null)
        = (kind in ('flow_cancel_requested', 'flow_ended', 'flow_reopened'))),
    check (lane_id is not null or flow_id is not null),
    check ((kind = 'signal') = (signal_id is not null)),
    check ((signal_id is null) = (waitpoint_id is null)),
    check ((signal_id is null) = (source_identity is null)),
    check (signal_id is not null or subject is null)
) strict;

create index ff_event_execution on ff_event (partition_key, execution_id, seq);
create index ff_event_flow on ff_event (partition_key, flow_id, seq) where flow_id is not null;

create table ff_idempotency (
    namespace text not null,
    key text not null,
    partition_key integer not null,
    execution_id blob not null,
    fingerprint blob not null,
    expires_at_ms integer not null,
    primary key (namespace, key)
) strict, without rowid;

create index ff_idempotency_expires on ff_idempotency (expires_at_ms);

-- Durable consumers of the feed, and how far each has dealt with it.
create table ff_consumer (
    name text not null primary key,
    seq integer not null check (seq >= 0),
    updated_at_ms integer not null
) strict, without rowid;
