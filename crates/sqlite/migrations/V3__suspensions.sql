-- Suspensions and everything that belongs to them: where signals arrive, and what arrived.
--
-- The checks mirror the states in ff-core, as those of executions do.

-- The last suspension of each execution. It is open while its execution is suspended under the
-- same epoch, whatever stands here.
create table ff_suspension_current (
    partition_key integer not null check (partition_key between 0 and 255),
    execution_id blob not null check (length(execution_id) = 16),
    suspension_id blob not null check (length(suspension_id) = 16),
    epoch integer not null check (epoch >= 0),
    attempt_index integer not null check (attempt_index >= 0),
    primary_waitpoint_id blob not null check (length(primary_waitpoint_id) = 16),
    condition text not null check (json_valid(condition)),
    resume_delay_ms integer not null check (resume_delay_ms >= 0),
    reason text not null check (reason in ('waiting_for_signal', 'waiting_for_approval',
        'waiting_for_callback', 'waiting_for_tool_result', 'waiting_for_operator_review',
        'paused_by_policy', 'paused_by_budget', 'step_boundary', 'manual_pause')),
    requested_by text not null check (requested_by in ('worker', 'operator', 'policy',
        'system_timeout_policy')),
    since_ms integer not null,
    timeout_behavior text not null check (timeout_behavior in ('fail', 'cancel', 'expire',
        'auto_resume_with_timeout_signal', 'escalate')),
    continuation text,
    -- how it ended
    closed_at_ms integer,
    close_reason text check (close_reason in ('resumed', 'cancelled', 'timed_out_fail',
        'timed_out_cancel', 'timed_out_expire', 'timed_out_auto_resume', 'never_committed',
        'proactive_close')),
    satisfied_by text check (satisfied_by is null or json_valid(satisfied_by)),
    primary key (partition_key, execution_id),
    check ((closed_at_ms is null) = (close_reason is null)),
    check ((closed_at_ms is null) = (satisfied_by is null))
) strict, without rowid;

-- Listing what is suspended, longest first.
create index ff_suspension_current_since
    on ff_suspension_current (since_ms, partition_key, execution_id)
    where closed_at_ms is null;

-- Where signals to an execution arrive. Of its token only the digest is kept.
create table ff_waitpoint (
    partition_key integer not null check (partition_key between 0 and 255),
    execution_id blob not null check (length(execution_id) = 16),
    waitpoint_id blob not null check (length(waitpoint_id) = 16),
    waitpoint_key text not null,
    attempt_index integer not null check (attempt_index >= 0),
    suspension_id blob check (length(suspension_id) = 16),
    kid text not null,
    token_digest blob not null check (length(token_digest) = 32),
    created_at_ms integer not null,
    signal_count integer not null check (signal_count >= 0),
    matched_count integer not null check (matched_count >= 0),
    last_signal_at_ms integer,
    -- where it stands
    state text not null check (state in ('pending', 'active', 'closed')),
    activated_at_ms integer,
    expires_at_ms integer,
    closed_at_ms integer,
    close_reason text check (close_reason in ('resumed', 'cancelled', 'timed_out_fail',
        'timed_out_cancel', 'timed_out_expire', 'timed_out_auto_resume', 'never_committed',
        'proactive_close')),
    primary key (partition_key, execution_id, waitpoint_id),
    check (state <> 'pending' or (activated_at_ms is null and expires_at_ms is not null)),
    check (state <> 'active' or (activated_at_ms is not null and suspension_id is not null)),
    check (state <> 'closed' or expires_at_ms is null),
    check ((state = 'closed') = (closed_at_ms is not null)),
    check ((closed_at_ms is null) = (close_reason is null))
) strict, without rowid;

-- What nobody suspended on in time is closed.
create index ff_waitpoint_expires on ff_waitpoint (expires_at_ms) where state = 'pending';

-- Listing what signals may arrive at, by id. Two executions may have waitpoints of one id.
create index ff_waitpoint_open on ff_waitpoint (waitpoint_id, partition_key, execution_id)
    where state <> 'closed';

-- What arrived, numbered within its execution. A payload may be long: it stands last, so that
-- whoever judges a condition reads past none.
create table ff_signal (
    partition_key integer not null check (partition_key between 0 and 255),
    execution_id blob not null check (length(execution_id) = 16),
    signal_id blob not null check (length(signal_id) = 16),
    waitpoint_id blob not null check (length(waitpoint_id) = 16),
    number integer not null check (number >= 0),
    name text not null,
    category text not null,
    source_type text not null,
    source_identity text not null,
    subject text,
    correlation_id text,
    idempotency_key text,
    dedup_until_ms integer,
    created_at_ms integer not null,
    accepted_at_ms integer not null,
    effect text not null check (effect in ('resume_condition_satisfied', 'appended_to_waitpoint',
        'appended_to_waitpoint_duplicate', 'signal_ignored_not_in_condition',
        'signal_ignored_matcher_failed', 'buffered_for_pending_waitpoint')),
    encoding text,
    payload blob,
    primary key (partition_key, execution_id, number),
    unique (partition_key, execution_id, signal_id),
    check ((idempotency_key is null) = (dedup_until_ms is null))
) strict;

-- Those that a condition may still count.
create index ff_signal_counting
    on ff_signal (partition_key, execution_id, waitpoint_id, number)
    where effect in ('appended_to_waitpoint', 'buffered_for_pending_waitpoint');

-- Whether a waitpoint was sent the same before.
create index ff_signal_keyed
    on ff_signal (partition_key, execution_id, waitpoint_id, idempotency_key, number)
    where idempotency_key is not null;

-- What a repeated suspension is answered with.
create table ff_suspend_key (
    partition_key integer not null check (partition_key between 0 and 255),
    execution_id blob not null check (length(execution_id) = 16),
    idempotency_key text not null,
    suspension_id blob not null check (length(suspension_id) = 16),
    waitpoints text not null check (json_valid(waitpoints)),
    already_satisfied integer not null check (already_satisfied in (0, 1)),
    expires_at_ms integer not null,
    primary key (partition_key, execution_id, idempotency_key)
) strict, without rowid;

-- The keys that sign tokens. The current one has no end; the numbers of the rows tell in which
-- order keys were installed, whatever the clock did.
create table ff_signing_key (
    kid text not null primary key,
    secret blob not null check (length(secret) > 0),
    created_at_ms integer not null,
    expires_at_ms integer
) strict;

-- One current key only.
create unique index ff_signing_key_current on ff_signing_key (expires_at_ms is null)
    where expires_at_ms is null;
