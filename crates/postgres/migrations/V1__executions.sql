-- Executions and everything that belongs to them.
--
-- Times are milliseconds since the Unix epoch, in columns ending in _ms. The checks mirror the
-- states in ff-core: a column that belongs to one state is null in the others.

-- What never changes comes first: an update then logs only the end of the row. Pages are left
-- half empty, so that being claimed and completed stays on the page and touches no index.
create table ff_exec_core (
    execution_id uuid not null,
    created_at_ms bigint not null,
    partition_key smallint not null check (partition_key between 0 and 255),
    fingerprint bytea not null,
    namespace text not null,
    lane_id text not null,
    kind text not null,
    creator text not null,
    policy text,
    idempotency_key text,
    -- what may change in any state
    tags text,
    priority integer not null check (priority between 0 and 9000),
    retries integer not null check (retries >= 0),
    reclaims integer not null check (reclaims >= 0),
    replays integer not null check (replays >= 0),
    attempts integer not null check (attempts >= 0),
    deadline_at_ms bigint,
    started_at_ms bigint,
    progress_at_ms bigint,
    progress_percent integer check (progress_percent between 0 and 100),
    progress_message text,
    version bigint not null check (version > 0),
    epoch bigint not null check (epoch >= 0),
    updated_at_ms bigint not null,
    -- where it stands
    phase text not null check (phase in ('runnable', 'active', 'terminal')),
    outcome text check (outcome in ('success', 'failed', 'cancelled', 'expired')),
    next_attempt text check (next_attempt in ('first', 'retry', 'reclaim', 'replay', 'resume')),
    wait_until_ms bigint,
    wait_reason text check (wait_reason in ('delay', 'retry_backoff')),
    held_reason text,
    held_at_ms bigint,
    lease_end text check (lease_end in
        ('completed', 'failed', 'cancelled', 'delayed', 'released', 'expired', 'revoked')),
    -- the attempt under way, interrupted, or the one it ended with
    attempt_index integer check (attempt_index >= 0),
    attempt_kind text check (attempt_kind in ('initial', 'retry', 'reclaim', 'replay')),
    worker_id text,
    worker_instance_id text,
    attempt_started_at_ms bigint,
    attempt_ran_ms bigint check (attempt_ran_ms >= 0),
    -- the claim whose lease holds it
    claim_id uuid,
    resumed boolean,
    timeout_at_ms bigint,
    failure_reason text,
    failure_category text,
    -- how it ended
    has_result boolean,
    cancelled_by text check (cancelled_by in ('worker', 'operator')),
    end_reason text,
    terminal_at_ms bigint,
    retain_until_ms bigint,
    primary key (partition_key, execution_id),
    check ((phase = 'runnable') = (next_attempt is not null)),
    check ((phase = 'active') = (resumed is not null)),
    check ((phase = 'active') = (claim_id is not null)),
    check ((phase = 'active') = (epoch % 2 = 1)),
    check ((phase = 'terminal') = (outcome is not null)),
    check ((phase = 'terminal') = (terminal_at_ms is not null)),
    check ((phase = 'terminal') = (retain_until_ms is not null)),
    check (phase = 'runnable' or (wait_until_ms is null and held_at_ms is null)),
    check ((wait_until_ms is null) = (wait_reason is null)),
    check ((held_at_ms is null) = (held_reason is null)),
    check ((attempt_index is null) = (worker_instance_id is null))
) with (fillfactor = 50);

-- Listing newest first inside a lane; over everything, lane by lane. No column of it ever changes.
create index ff_exec_core_lane
    on ff_exec_core (lane_id, created_at_ms, partition_key, execution_id);

-- Leases stand beside their execution, so that renewing writes one short row. The sweep finds
-- them by check_at_ms, which renewing does not move: until_ms may be later, never earlier. A
-- repeated claim finds its leases by its id, and so does whoever holds the execution's row.
create table ff_lease (
    claim_id uuid not null,
    execution_id uuid not null,
    partition_key smallint not null,
    epoch bigint not null check (epoch % 2 = 1),
    acquired_at_ms bigint not null,
    renewed_at_ms bigint not null,
    until_ms bigint not null,
    check_at_ms bigint not null check (check_at_ms <= until_ms),
    primary key (claim_id, partition_key, execution_id)
) with (fillfactor = 70);

create index ff_lease_check on ff_lease (check_at_ms);

-- Inputs and results, written once.
create table ff_payload (
    execution_id uuid not null,
    partition_key smallint not null,
    attempt_index integer not null check (attempt_index >= 0),
    kind text not null check (kind in ('input', 'result')),
    encoding text,
    bytes bytea not null,
    primary key (partition_key, execution_id, kind, attempt_index)
);

-- Attempts that ended without ending their execution, or before a replay.
create table ff_attempt (
    execution_id uuid not null,
    partition_key smallint not null,
    attempt_index integer not null check (attempt_index >= 0),
    kind text not null check (kind in ('initial', 'retry', 'reclaim', 'replay')),
    worker_id text not null,
    worker_instance_id text not null,
    started_at_ms bigint not null,
    ended_at_ms bigint not null,
    outcome text not null check (outcome in ('ended_success', 'ended_failure',
        'ended_cancelled', 'interrupted_reclaimed', 'ended_expired')),
    failure_reason text,
    failure_category text,
    primary key (partition_key, execution_id, attempt_index)
);

-- What a queue number stands for: a lane and a set of required capabilities.
create table ff_queue (
    queue bigint not null primary key,
    lane_id text not null,
    capabilities text[] not null
);

create index ff_queue_lane on ff_queue (lane_id);

-- What is claimable now, in claim order. Rows are inserted and deleted, never updated.
create table ff_ready (
    queue bigint not null,
    turn_ms bigint not null,
    rank integer not null,
    partition_key smallint not null,
    execution_id uuid not null,
    primary key (queue, rank, turn_ms, partition_key, execution_id)
);

-- What happens later. A delay carries its place in a queue, so that promoting it moves a row.
create table ff_timer (
    due_ms bigint not null,
    execution_id uuid not null,
    partition_key smallint not null,
    kind text not null check (kind in ('delay', 'attempt_timeout', 'deadline', 'retention')),
    queue bigint,
    rank integer,
    turn_ms bigint,
    primary key (kind, due_ms, partition_key, execution_id),
    check ((kind = 'delay') = (queue is not null))
);

create table ff_tag (
    key text not null,
    value text not null,
    partition_key smallint not null,
    execution_id uuid not null,
    primary key (key, value, partition_key, execution_id)
);

-- The feed. A transaction takes its numbers while it holds its rows, so two changes of one row
-- are numbered in their order; which events a reader has seen is told by xid.
create table ff_event (
    seq bigint generated always as identity primary key,
    xid xid8 not null default pg_current_xact_id(),
    at_ms bigint not null,
    execution_id uuid not null,
    partition_key smallint not null,
    namespace text not null,
    lane_id text not null,
    kind text not null check (kind in ('completion', 'attempt_failed', 'lease_expired',
        'lease_revoked', 'lease_reclaimed', 'priority_changed', 'replayed', 'held', 'unheld')),
    attempt_index integer,
    outcome text,
    reason text,
    failure_category text,
    worker_id text,
    worker_instance_id text,
    retry_at_ms bigint,
    priority_from integer,
    priority_to integer
);

create index ff_event_execution on ff_event (partition_key, execution_id);
create index ff_event_xid on ff_event (xid);

create table ff_idempotency (
    namespace text not null,
    key text not null,
    execution_id uuid not null,
    partition_key smallint not null,
    fingerprint bytea not null,
    expires_at_ms bigint not null,
    primary key (namespace, key)
);

create index ff_idempotency_expires on ff_idempotency (expires_at_ms);

-- Durable consumers of the feed: everything visible in base was dealt with, and of what is
-- visible in upto everything up to after_seq.
create table ff_consumer (
    name text not null primary key,
    base pg_snapshot not null,
    base_seq bigint not null check (base_seq >= 0),
    upto pg_snapshot not null,
    upto_seq bigint not null check (upto_seq >= 0),
    after_seq bigint not null check (after_seq >= 0),
    updated_at_ms bigint not null
);
