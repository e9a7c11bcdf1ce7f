-- Flows and everything that belongs to them. A flow lives in one partition with all its members.
--
-- The checks mirror the states in ff-core, as those of executions do.

create domain ff_flow_state as text check (value in ('open', 'completed', 'failed', 'cancelled'));
create domain ff_cancellation_policy as text
    check (value in ('cancel_flow_only', 'cancel_all', 'cancel_pending'));
create domain ff_dependency_kind as text
    check (value in ('success_only', 'any_terminal', 'failure_only'));
create domain ff_edge_state as text
    check (value in ('staged', 'unsatisfied', 'satisfied', 'impossible'));
create domain ff_group_state as text check (value in ('pending', 'satisfied', 'impossible'));
create domain ff_siblings_reason as text
    check (value in ('sibling_quorum_satisfied', 'sibling_quorum_impossible'));

-- A flow is changed whenever ends of its members are dispatched: pages are left half empty, so that
-- this stays on the page and touches no index.
create table ff_flow_core (
    flow_id uuid not null,
    created_at_ms bigint not null,
    partition_key smallint not null,
    fingerprint bytea not null,
    namespace text not null,
    kind text not null,
    creator text not null,
    idempotency_key text,
    -- what may change in any state
    tags text,
    sealed boolean not null,
    node_count integer not null,
    edge_count integer not null,
    ended_well integer not null,
    ended_badly integer not null,
    graph_revision bigint not null,
    version bigint not null,
    updated_at_ms bigint not null,
    retain_until_ms bigint not null,
    -- where it stands
    terminal_at_ms bigint,
    -- follows from the rest; here to be found by
    trim_at_ms bigint,
    state ff_flow_state not null,
    cancellation_policy ff_cancellation_policy,
    cancel_reason text,
    primary key (partition_key, flow_id),
    check (
        (state = 'open') = (terminal_at_ms is null)
        and (state = 'cancelled') = (cancellation_policy is not null)
        and (state = 'cancelled') = (cancel_reason is not null)
        and (trim_at_ms is null or terminal_at_ms is not null)
    )
) with (fillfactor = 50);

-- Listing newest first. No column of it ever changes.
create index ff_flow_core_created on ff_flow_core (created_at_ms, partition_key, flow_id);
create index ff_flow_core_trim on ff_flow_core (trim_at_ms, partition_key, flow_id)
    where trim_at_ms is not null;

-- Who waits for whom. Nothing but the state ever changes, and no index holds it.
create table ff_edge (
    edge_id uuid not null,
    flow_id uuid not null,
    upstream_id uuid not null,
    downstream_id uuid not null,
    created_at_ms bigint not null,
    partition_key smallint not null,
    round integer not null,
    kind ff_dependency_kind not null,
    name text,
    data_passing_ref text,
    state ff_edge_state not null,
    applied_at_ms bigint,
    resolved_at_ms bigint,
    primary key (partition_key, flow_id, edge_id),
    unique (partition_key, flow_id, downstream_id, upstream_id),
    check (
        (state = 'staged') = (applied_at_ms is null)
        and (state in ('satisfied', 'impossible')) = (resolved_at_ms is not null)
    )
) with (fillfactor = 50);

create index ff_edge_upstream on ff_edge (partition_key, flow_id, upstream_id, downstream_id);

-- The edges into one execution, counted.
create table ff_edge_group (
    flow_id uuid not null,
    downstream_id uuid not null,
    partition_key smallint not null,
    policy text not null,
    round integer not null,
    staged integer not null,
    total integer not null,
    satisfied integer not null,
    failed integer not null,
    skipped integer not null,
    k_target integer not null,
    state ff_group_state not null,
    fired_at_ms bigint,
    cancel_siblings_pending boolean not null,
    cancel_siblings_reason ff_siblings_reason,
    cancel_siblings_round integer,
    primary key (partition_key, flow_id, downstream_id),
    check (
        (state = 'pending') = (fired_at_ms is null)
        and (cancel_siblings_reason is null) = (cancel_siblings_round is null)
        and (cancel_siblings_reason is not null or not cancel_siblings_pending)
    )
) with (fillfactor = 50);

-- What the reconciler walks.
create index ff_edge_group_pending on ff_edge_group (partition_key, flow_id, downstream_id)
    where state = 'pending';

-- Members that ended and whose flow has not been told.
create table ff_dispatch (
    at_ms bigint not null,
    execution_id uuid not null,
    flow_id uuid not null,
    partition_key smallint not null,
    primary key (partition_key, execution_id)
);

create index ff_dispatch_at on ff_dispatch (at_ms, partition_key, execution_id);

-- Groups that fired and whose remaining upstreams are to be cancelled.
create table ff_pending_cancel_groups (
    enqueued_at_ms bigint not null,
    flow_id uuid not null,
    downstream_id uuid not null,
    partition_key smallint not null,
    primary key (partition_key, flow_id, downstream_id)
);

create index ff_pending_cancel_groups_enqueued
    on ff_pending_cancel_groups (enqueued_at_ms, partition_key, flow_id, downstream_id);

-- Cancelled flows that owe the end of members, and those members.
create table ff_cancel_backlog (
    requested_at_ms bigint not null,
    flow_id uuid not null,
    partition_key smallint not null,
    primary key (partition_key, flow_id)
);

create index ff_cancel_backlog_requested
    on ff_cancel_backlog (requested_at_ms, partition_key, flow_id);

create table ff_cancel_backlog_member (
    flow_id uuid not null,
    execution_id uuid not null,
    partition_key smallint not null,
    primary key (partition_key, flow_id, execution_id)
);

-- Rows on their way in, as those of executions.
create type ff_flow_row as (
    partition_key smallint, flow_id uuid, version bigint, namespace text, kind text, creator text,
    idempotency_key text, fingerprint bytea, created_at_ms bigint, graph_revision bigint,
    node_count integer, edge_count integer, ended_well integer, ended_badly integer,
    sealed boolean, tags text, updated_at_ms bigint, retain_until_ms bigint, state text,
    terminal_at_ms bigint, cancellation_policy text, cancel_reason text, trim_at_ms bigint,
    before bigint
);

create type ff_edge_row as (
    partition_key smallint, flow_id uuid, edge_id uuid, upstream_id uuid, downstream_id uuid,
    kind text, name text, data_passing_ref text, round integer, created_at_ms bigint, state text,
    applied_at_ms bigint, resolved_at_ms bigint
);

create type ff_group_row as (
    partition_key smallint, flow_id uuid, downstream_id uuid, policy text, round integer,
    staged integer, total integer, satisfied integer, failed integer, skipped integer,
    k_target integer, state text, fired_at_ms bigint, cancel_siblings_pending boolean,
    cancel_siblings_reason text, cancel_siblings_round integer
);
