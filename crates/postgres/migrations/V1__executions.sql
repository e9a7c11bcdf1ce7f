-- Executions and everything that belongs to them.
--
-- Times are milliseconds since the Unix epoch, in columns ending in _ms. The checks mirror the
-- states in ff-core: a column that belongs to one state is null in the others.

-- The words that columns hold. A server keeps the check of a domain ready, but reads the check of a
-- table anew for every statement: two dozen of those cost more than all else that a statement does.
create domain ff_phase as text
    check (value in ('runnable', 'active', 'suspended', 'terminal'));
create domain ff_outcome as text
    check (value in ('success', 'failed', 'cancelled', 'expired', 'skipped'));
create domain ff_next_attempt as text
    check (value in ('first', 'retry', 'reclaim', 'replay', 'resume'));
create domain ff_wait_reason as text
    check (value in ('delay', 'retry_backoff', 'resume_delay', 'waiting_for_signal',
    'waiting_for_approval', 'waiting_for_callback', 'waiting_for_tool_result',
    'waiting_for_operator_review', 'paused_by_policy', 'paused_by_budget', 'step_boundary',
    'manual_pause'));
create domain ff_lease_end as text
    check (value in ('completed', 'failed', 'cancelled', 'delayed', 'waiting', 'released',
    'suspended', 'expired', 'revoked'));
create domain ff_attempt_kind as text check (value in ('initial', 'retry', 'reclaim', 'replay'));
create domain ff_attempt_outcome as text check (value in ('ended_success', 'ended_failure',
    'ended_cancelled', 'interrupted_reclaimed', 'ended_expired'));
create domain ff_cancelled_by as text
    check (value in ('worker', 'operator', 'cancel_flow', 'engine', 'system_timeout'));
create domain ff_payload_kind as text check (value in ('input', 'result'));
create domain ff_step_kind as text
    check (value in ('run', 'sleep', 'now', 'random', 'wait', 'waitpoint'));
create domain ff_timer_kind as text
    check (value in ('delay', 'attempt_timeout', 'deadline', 'suspension', 'retention'));
create domain ff_event_kind as text
    check (value in ('completion', 'attempt_failed', 'lease_expired',
    'lease_revoked', 'lease_reclaimed', 'priority_changed', 'replayed', 'suspended', 'signal',
    'resumed', 'escalated', 'held', 'unheld', 'flow_cancel_requested', 'flow_ended',
    'flow_reopened'));

-- What never changes comes first: an update then logs only the end of the row. Pages are left three
-- quarters empty, so that being claimed and completed stays on the page and touches no index, even
-- while others keep old versions from being removed.
create table ff_exec_core (
    execution_id uuid not null,
    created_at_ms bigint not null,
    partition_key smallint not null,
    fingerprint bytea not null,
    namespace text not null,
    lane_id text not null,
    kind text not null,
    creator text not null,
    policy text,
    idempotency_key text,
    -- the flow it belongs to, once it does, and what it is called there
    flow_id uuid,
    node text,
    -- A small input stands here; a larger one is a payload.
    input_size integer,
    input_encoding text,
    input bytea,
    -- what may change in any state
    tags text,
    -- the member of the same flow whose result it is to work on
    input_from uuid,
    priority integer not null,
    retries integer not null,
    reclaims integer not null,
    replays integer not null,
    attempts integer not null,
    deadline_at_ms bigint,
    started_at_ms bigint,
    progress_at_ms bigint,
    progress_percent integer,
    progress_message text,
    version bigint not null,
    epoch bigint not null,
    updated_at_ms bigint not null,
    -- where it stands
    phase ff_phase not null,
    outcome ff_outcome,
    next_attempt ff_next_attempt,
    -- until when it is not claimable, or how long it stays suspended at most
    wait_until_ms bigint,
    wait_reason ff_wait_reason,
    held_reason text,
    held_at_ms bigint,
    -- whether it waits for others in its flow
    gated boolean not null,
    lease_end ff_lease_end,
    -- the attempt under way, interrupted, or the one it ended with
    attempt_index integer,
    attempt_kind ff_attempt_kind,
    worker_id text,
    worker_instance_id text,
    attempt_started_at_ms bigint,
    attempt_ran_ms bigint,
    -- the claim whose lease holds it
    claim_id uuid,
    resumed boolean,
    timeout_at_ms bigint,
    failure_reason text,
    failure_category text,
    -- how it ended
    has_result boolean,
    cancelled_by ff_cancelled_by,
    end_reason text,
    terminal_at_ms bigint,
    retain_until_ms bigint,
    -- the first result, if it is small, and the attempt it is of
    result_attempt integer,
    result_encoding text,
    result bytea,
    primary key (partition_key, execution_id),
    -- What a state carries, as far as it can be said in few words: the reader checks the rest.
    check (
        (phase = 'terminal') = (outcome is not null)
        and (phase = 'active') = (claim_id is not null)
        and (phase = 'runnable' or not gated)
    )
) with (fillfactor = 25);

-- Listing newest first inside a lane; over everything, lane by lane. No column of it ever changes.
create index ff_exec_core_lane
    on ff_exec_core (lane_id, created_at_ms, partition_key, execution_id);

-- The members of a flow, by id. An execution joins one at most once.
create index ff_exec_core_flow on ff_exec_core (partition_key, flow_id, execution_id)
    where flow_id is not null;

-- Leases stand beside their execution, so that renewing writes one short row. The sweep finds
-- them by check_at_ms, which renewing does not move: until_ms may be later, never earlier. A
-- repeated claim finds its leases by its id, and so does whoever holds the execution's row.
create table ff_lease (
    claim_id uuid not null,
    execution_id uuid not null,
    partition_key smallint not null,
    epoch bigint not null,
    acquired_at_ms bigint not null,
    renewed_at_ms bigint not null,
    until_ms bigint not null,
    check_at_ms bigint not null,
    primary key (claim_id, partition_key, execution_id)
) with (fillfactor = 70);

create index ff_lease_check on ff_lease (check_at_ms);

-- Inputs and results that do not stand with their execution, written once.
create table ff_payload (
    execution_id uuid not null,
    partition_key smallint not null,
    attempt_index integer not null,
    kind ff_payload_kind not null,
    encoding text,
    bytes bytea not null,
    primary key (partition_key, execution_id, kind, attempt_index)
);

-- What executions have done so far, so that it is not done again.
create table ff_step (
    execution_id uuid not null,
    at_ms bigint not null,
    ran_ms bigint not null,
    partition_key smallint not null,
    number integer not null,
    attempt_index integer not null,
    kind ff_step_kind not null,
    name text not null,
    encoding text,
    bytes bytea not null,
    primary key (partition_key, execution_id, number)
);

-- Attempts that ended without ending their execution, or before a replay.
create table ff_attempt (
    execution_id uuid not null,
    partition_key smallint not null,
    attempt_index integer not null,
    kind ff_attempt_kind not null,
    worker_id text not null,
    worker_instance_id text not null,
    started_at_ms bigint not null,
    ended_at_ms bigint not null,
    outcome ff_attempt_outcome not null,
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
    kind ff_timer_kind not null,
    queue bigint,
    rank integer,
    turn_ms bigint,
    primary key (kind, due_ms, partition_key, execution_id)
);

create table ff_tag (
    key text not null,
    value text not null,
    partition_key smallint not null,
    execution_id uuid not null,
    primary key (key, value, partition_key, execution_id)
);

-- The feed. A transaction takes its numbers while it holds its rows, so two changes of one row
-- are numbered in their order; which events a reader has seen is told by xid. What happens to a
-- flow stands under the flow's id and in no lane.
create table ff_event (
    seq bigint generated always as identity primary key,
    xid xid8 not null default pg_current_xact_id(),
    at_ms bigint not null,
    execution_id uuid not null,
    partition_key smallint not null,
    namespace text not null,
    lane_id text,
    flow_id uuid,
    kind ff_event_kind not null,
    attempt_index integer,
    outcome text,
    reason text,
    failure_category text,
    worker_id text,
    worker_instance_id text,
    retry_at_ms bigint,
    priority_from integer,
    priority_to integer,
    members integer,
    signal_id uuid,
    waitpoint_id uuid,
    source_identity text,
    subject text
);

create index ff_event_execution on ff_event (partition_key, execution_id);
create index ff_event_xid on ff_event (xid);
create index ff_event_flow on ff_event (partition_key, flow_id, seq) where flow_id is not null;

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
    base_seq bigint not null,
    upto pg_snapshot not null,
    upto_seq bigint not null,
    after_seq bigint not null,
    updated_at_ms bigint not null
);

-- Rows on their way in. A statement takes them as one array, which one function call unpacks; an
-- array for each column would cost a call for each column, in a batch of one as well. A type is
-- never changed: a later shape of a row is another type.
create type ff_execution_row as (
    partition_key smallint, execution_id uuid, at tid, version bigint, before bigint,
    priority integer, tags text, deadline_at_ms bigint, epoch bigint, attempts integer,
    retries integer, reclaims integer, replays integer, progress_percent integer,
    progress_message text, progress_at_ms bigint, input_from uuid, started_at_ms bigint,
    updated_at_ms bigint, phase text, outcome text, next_attempt text, wait_until_ms bigint,
    wait_reason text, held_reason text, held_at_ms bigint, gated boolean, lease_end text,
    attempt_index integer, attempt_kind text, worker_id text, worker_instance_id text,
    attempt_started_at_ms bigint, attempt_ran_ms bigint, claim_id uuid, resumed boolean,
    timeout_at_ms bigint, failure_reason text, failure_category text, has_result boolean,
    cancelled_by text, end_reason text, terminal_at_ms bigint, retain_until_ms bigint,
    result_attempt integer, result_encoding text, result bytea
);

create type ff_new_execution_row as (
    partition_key smallint, execution_id uuid, version bigint, namespace text, lane_id text,
    kind text, creator text, policy text, idempotency_key text, fingerprint bytea,
    created_at_ms bigint, flow_id uuid, node text, input_size integer, input_encoding text,
    input bytea, priority integer, tags text, deadline_at_ms bigint, epoch bigint,
    attempts integer, retries integer, reclaims integer, replays integer,
    progress_percent integer, progress_message text, progress_at_ms bigint, input_from uuid,
    started_at_ms bigint, updated_at_ms bigint, phase text, outcome text, next_attempt text,
    wait_until_ms bigint, wait_reason text, held_reason text, held_at_ms bigint, gated boolean,
    lease_end text, attempt_index integer, attempt_kind text, worker_id text,
    worker_instance_id text, attempt_started_at_ms bigint, attempt_ran_ms bigint, claim_id uuid,
    resumed boolean, timeout_at_ms bigint, failure_reason text, failure_category text,
    has_result boolean, cancelled_by text, end_reason text, terminal_at_ms bigint,
    retain_until_ms bigint
);

create type ff_lease_row as (
    partition_key smallint, execution_id uuid, epoch bigint, claim_id uuid,
    acquired_at_ms bigint, renewed_at_ms bigint, until_ms bigint, check_at_ms bigint,
    before_ms bigint
);

create type ff_payload_row as (
    partition_key smallint, execution_id uuid, kind text, attempt_index integer, encoding text,
    bytes bytea
);

create type ff_step_row as (
    partition_key smallint, execution_id uuid, number integer, attempt_index integer, kind text,
    name text, ran_ms bigint, at_ms bigint, encoding text, bytes bytea
);

create type ff_ready_row as (
    queue bigint, rank integer, turn_ms bigint, partition_key smallint, execution_id uuid, at tid
);

create type ff_timer_row as (
    kind text, due_ms bigint, partition_key smallint, execution_id uuid, queue bigint,
    rank integer, turn_ms bigint
);

create type ff_event_row as (
    partition_key smallint, execution_id uuid, at_ms bigint, namespace text, lane_id text,
    flow_id uuid, kind text, attempt_index integer, outcome text, reason text,
    failure_category text, worker_id text, worker_instance_id text, retry_at_ms bigint,
    priority_from integer, priority_to integer, members integer, signal_id uuid,
    waitpoint_id uuid, source_identity text, subject text
);
