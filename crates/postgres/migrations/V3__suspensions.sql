-- Suspensions, their waitpoints and signals, and the keys that sign the tokens of waitpoints.
--
-- What belongs to an execution is read for a decision, and written, only while its row is
-- locked. The checks mirror the states in ff-core, as those of executions do.

create domain ff_suspension_reason as text
    check (value in ('waiting_for_signal', 'waiting_for_approval', 'waiting_for_callback',
    'waiting_for_tool_result', 'waiting_for_operator_review', 'paused_by_policy',
    'paused_by_budget', 'step_boundary', 'manual_pause'));
create domain ff_requested_by as text
    check (value in ('worker', 'operator', 'policy', 'system_timeout_policy'));
create domain ff_timeout_behavior as text
    check (value in ('fail', 'cancel', 'expire', 'auto_resume_with_timeout_signal', 'escalate'));
create domain ff_close_reason as text
    check (value in ('resumed', 'cancelled', 'timed_out_fail', 'timed_out_cancel',
    'timed_out_expire', 'timed_out_auto_resume', 'never_committed', 'proactive_close'));
create domain ff_waitpoint_state as text check (value in ('pending', 'active', 'closed'));
create domain ff_signal_effect as text
    check (value in ('resume_condition_satisfied', 'appended_to_waitpoint',
    'appended_to_waitpoint_duplicate', 'signal_ignored_not_in_condition',
    'signal_ignored_matcher_failed', 'buffered_for_pending_waitpoint'));

-- The last suspension of an execution. It is open while the execution is suspended under its epoch.
create table ff_suspension_current (
    execution_id uuid not null,
    suspension_id uuid not null,
    primary_waitpoint_id uuid not null,
    epoch bigint not null,
    since_ms bigint not null,
    resume_delay_ms bigint not null,
    partition_key smallint not null,
    attempt_index integer not null,
    condition text not null,
    reason ff_suspension_reason not null,
    requested_by ff_requested_by not null,
    timeout_behavior ff_timeout_behavior not null,
    continuation text,
    -- how it ended
    closed_at_ms bigint,
    close_reason ff_close_reason,
    satisfied_by text,
    primary key (partition_key, execution_id),
    check (
        (closed_at_ms is null) = (close_reason is null)
        and (closed_at_ms is null) = (satisfied_by is null)
    )
) with (fillfactor = 50);

-- Listing those that last, longest first.
create index ff_suspension_current_since
    on ff_suspension_current (since_ms, partition_key, execution_id) where closed_at_ms is null;

-- Where signals to an execution arrive. The token itself is stored nowhere. Each signal is counted
-- here: pages are left half empty, so that this stays on the page and touches no index.
create table ff_waitpoint (
    execution_id uuid not null,
    waitpoint_id uuid not null,
    suspension_id uuid,
    created_at_ms bigint not null,
    partition_key smallint not null,
    attempt_index integer not null,
    waitpoint_key text not null,
    kid text not null,
    token_digest bytea not null,
    -- what has arrived
    signal_count integer not null,
    matched_count integer not null,
    last_signal_at_ms bigint,
    -- where it stands
    activated_at_ms bigint,
    expires_at_ms bigint,
    closed_at_ms bigint,
    state ff_waitpoint_state not null,
    close_reason ff_close_reason,
    primary key (partition_key, execution_id, waitpoint_id),
    check (
        (state = 'closed') = (closed_at_ms is not null)
        and (state = 'closed') = (close_reason is not null)
        and (state <> 'pending' or (expires_at_ms is not null and activated_at_ms is null))
        and (state <> 'active' or activated_at_ms is not null)
        and (state <> 'closed' or expires_at_ms is null)
    )
) with (fillfactor = 50);

-- What the sweep finds: those that nobody suspended with in time.
create index ff_waitpoint_expires on ff_waitpoint (expires_at_ms) where state = 'pending';
-- Listing those at which signals may arrive.
create index ff_waitpoint_open on ff_waitpoint (waitpoint_id, partition_key, execution_id)
    where state <> 'closed';

-- What arrived, in the order in which it was accepted. Written once.
create table ff_signal (
    execution_id uuid not null,
    signal_id uuid not null,
    waitpoint_id uuid not null,
    created_at_ms bigint not null,
    accepted_at_ms bigint not null,
    partition_key smallint not null,
    number integer not null,
    effect ff_signal_effect not null,
    name text not null,
    category text not null,
    source_type text not null,
    source_identity text not null,
    subject text,
    correlation_id text,
    idempotency_key text,
    dedup_until_ms bigint,
    encoding text,
    payload bytea,
    primary key (partition_key, execution_id, number),
    unique (partition_key, execution_id, signal_id),
    check ((idempotency_key is null) = (dedup_until_ms is null))
);

-- Those that a condition may still count.
create index ff_signal_counting
    on ff_signal (partition_key, execution_id, waitpoint_id, number)
    where effect in ('appended_to_waitpoint', 'buffered_for_pending_waitpoint');

-- The last one under a key.
create index ff_signal_keyed
    on ff_signal (partition_key, execution_id, waitpoint_id, idempotency_key, number)
    where idempotency_key is not null;

-- What a repeated suspension is answered with.
create table ff_suspend_key (
    execution_id uuid not null,
    suspension_id uuid not null,
    expires_at_ms bigint not null,
    partition_key smallint not null,
    already_satisfied boolean not null,
    idempotency_key text not null,
    waitpoints text not null,
    primary key (partition_key, execution_id, idempotency_key)
);

-- The keys that sign tokens, in the order in which they were installed. The current one has no end.
create table ff_signing_key (
    kid text not null primary key,
    turn bigint not null generated always as identity,
    secret bytea not null,
    created_at_ms bigint not null,
    expires_at_ms bigint
);

-- Whoever installs a key while another process does finds out here.
create unique index ff_signing_key_current on ff_signing_key ((expires_at_ms is null))
    where expires_at_ms is null;

-- Rows on their way in, as those of executions.
create type ff_suspension_row as (
    partition_key smallint, execution_id uuid, suspension_id uuid, epoch bigint,
    attempt_index integer, primary_waitpoint_id uuid, condition text, resume_delay_ms bigint,
    reason text, requested_by text, since_ms bigint, timeout_behavior text, continuation text,
    closed_at_ms bigint, close_reason text, satisfied_by text
);

create type ff_waitpoint_row as (
    partition_key smallint, execution_id uuid, waitpoint_id uuid, waitpoint_key text,
    attempt_index integer, suspension_id uuid, kid text, token_digest bytea, created_at_ms bigint,
    signal_count integer, matched_count integer, last_signal_at_ms bigint, state text,
    activated_at_ms bigint, expires_at_ms bigint, closed_at_ms bigint, close_reason text
);

create type ff_signal_row as (
    partition_key smallint, execution_id uuid, signal_id uuid, waitpoint_id uuid, number integer,
    name text, category text, source_type text, source_identity text, subject text,
    correlation_id text, idempotency_key text, dedup_until_ms bigint, created_at_ms bigint,
    accepted_at_ms bigint, encoding text, payload bytea, effect text
);

create type ff_suspend_key_row as (
    partition_key smallint, execution_id uuid, idempotency_key text, suspension_id uuid,
    waitpoints text, already_satisfied boolean, expires_at_ms bigint
);
