-- Flows and everything that belongs to them. A flow lives in one partition with all its members.
--
-- The checks mirror the states in ff-core, as those of executions do.

create table ff_flow_core (
    partition_key integer not null check (partition_key between 0 and 255),
    flow_id blob not null check (length(flow_id) = 16),
    version integer not null check (version > 0),
    -- fixed at creation
    namespace text not null,
    kind text not null,
    creator text not null,
    idempotency_key text,
    fingerprint blob not null,
    created_at_ms integer not null,
    -- what may change in any state
    graph_revision integer not null check (graph_revision >= 0),
    node_count integer not null check (node_count >= 0),
    edge_count integer not null check (edge_count >= 0),
    ended_well integer not null check (ended_well >= 0),
    ended_badly integer not null check (ended_badly >= 0),
    sealed integer not null check (sealed in (0, 1)),
    tags text check (tags is null or json_valid(tags)),
    updated_at_ms integer not null,
    retain_until_ms integer not null,
    -- where it stands
    state text not null check (state in ('open', 'completed', 'failed', 'cancelled')),
    terminal_at_ms integer,
    cancellation_policy text check (cancellation_policy in
        ('cancel_flow_only', 'cancel_all', 'cancel_pending')),
    cancel_reason text,
    -- follows from the rest; here to be found by
    trim_at_ms integer,
    primary key (partition_key, flow_id),
    check ((state = 'open') = (terminal_at_ms is null)),
    check ((state = 'cancelled') = (cancellation_policy is not null)),
    check ((state = 'cancelled') = (cancel_reason is not null)),
    check (trim_at_ms is null or terminal_at_ms is not null)
) strict, without rowid;

-- Listing newest first. The column never changes.
create index ff_flow_core_created on ff_flow_core (created_at_ms, partition_key, flow_id);
create index ff_flow_core_trim on ff_flow_core (trim_at_ms) where trim_at_ms is not null;

-- Who waits for whom. Nothing but the state ever changes.
create table ff_edge (
    partition_key integer not null,
    flow_id blob not null,
    edge_id blob not null check (length(edge_id) = 16),
    upstream_id blob not null check (length(upstream_id) = 16),
    downstream_id blob not null check (length(downstream_id) = 16),
    kind text not null check (kind in ('success_only', 'any_terminal', 'failure_only')),
    name text,
    data_passing_ref text,
    round integer not null check (round >= 0),
    created_at_ms integer not null,
    state text not null check (state in ('staged', 'unsatisfied', 'satisfied', 'impossible')),
    applied_at_ms integer,
    resolved_at_ms integer,
    primary key (partition_key, flow_id, edge_id),
    check ((state = 'staged') = (applied_at_ms is null)),
    check ((state in ('satisfied', 'impossible')) = (resolved_at_ms is not null))
) strict, without rowid;

create unique index ff_edge_downstream
    on ff_edge (partition_key, flow_id, downstream_id, upstream_id);
create index ff_edge_upstream on ff_edge (partition_key, flow_id, upstream_id);

-- The edges into one execution, counted.
create table ff_edge_group (
    partition_key integer not null,
    flow_id blob not null,
    downstream_id blob not null check (length(downstream_id) = 16),
    policy text not null check (json_valid(policy)),
    round integer not null check (round >= 0),
    staged integer not null check (staged >= 0),
    total integer not null check (total >= 0),
    satisfied integer not null check (satisfied >= 0),
    failed integer not null check (failed >= 0),
    skipped integer not null check (skipped >= 0),
    k_target integer not null check (k_target >= 0),
    state text not null check (state in ('pending', 'satisfied', 'impossible')),
    fired_at_ms integer,
    cancel_siblings_pending integer not null check (cancel_siblings_pending in (0, 1)),
    cancel_siblings_reason text check (cancel_siblings_reason in
        ('sibling_quorum_satisfied', 'sibling_quorum_impossible')),
    cancel_siblings_round integer check (cancel_siblings_round >= 0),
    primary key (partition_key, flow_id, downstream_id),
    check ((state = 'pending') = (fired_at_ms is null)),
    check ((cancel_siblings_reason is null) = (cancel_siblings_round is null)),
    check (cancel_siblings_pending = 0 or cancel_siblings_reason is not null)
) strict, without rowid;

-- What the reconciler walks.
create index ff_edge_group_pending on ff_edge_group (partition_key, flow_id, downstream_id)
    where state = 'pending';

-- Members that ended and whose flow has not been told.
create table ff_dispatch (
    partition_key integer not null,
    execution_id blob not null,
    flow_id blob not null check (length(flow_id) = 16),
    at_ms integer not null,
    primary key (partition_key, execution_id)
) strict, without rowid;

create index ff_dispatch_at on ff_dispatch (at_ms);

-- Groups that fired and whose remaining upstreams are to be cancelled.
create table ff_pending_cancel_groups (
    partition_key integer not null,
    flow_id blob not null,
    downstream_id blob not null,
    enqueued_at_ms integer not null,
    primary key (partition_key, flow_id, downstream_id)
) strict, without rowid;

create index ff_pending_cancel_groups_enqueued on ff_pending_cancel_groups (enqueued_at_ms);

-- Cancelled flows that owe the end of members, and those members.
create table ff_cancel_backlog (
    partition_key integer not null,
    flow_id blob not null,
    requested_at_ms integer not null,
    primary key (partition_key, flow_id)
) strict, without rowid;

create index ff_cancel_backlog_requested on ff_cancel_backlog (requested_at_ms);

create table ff_cancel_backlog_member (
    partition_key integer not null,
    flow_id blob not null,
    execution_id blob not null,
    primary key (partition_key, flow_id, execution_id)
) strict, without rowid;
