-- A digest of each result and its encoding, beside the execution: a completion that is repeated with
-- another result is refused, and no result is read for that. Of what ended before, nothing is known.
alter table ff_exec_core add column result_digest bigint;

-- The rows on their way in, with it. Processes of earlier versions send those without.
create type ff_execution_row_7 as (
    partition_key smallint, execution_id uuid, at tid, version bigint, before bigint,
    priority integer, tags text, deadline_at_ms bigint, epoch bigint, attempts integer,
    retries integer, reclaims integer, replays integer, progress_percent integer,
    progress_message text, progress_at_ms bigint, input_from uuid, started_at_ms bigint,
    updated_at_ms bigint, phase text, outcome text, next_attempt text, wait_until_ms bigint,
    wait_reason text, held_reason text, held_at_ms bigint, gated boolean, lease_end text,
    attempt_index integer, attempt_kind text, worker_id text, worker_instance_id text,
    attempt_started_at_ms bigint, attempt_ran_ms bigint, claim_id uuid, resumed boolean,
    timeout_at_ms bigint, failure_reason text, failure_category text, has_result boolean,
    result_digest bigint,
    cancelled_by text, end_reason text, terminal_at_ms bigint, retain_until_ms bigint,
    result_attempt integer, result_encoding text, result bytea
);

create type ff_new_execution_row_7 as (
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
    has_result boolean, result_digest bigint, cancelled_by text, end_reason text, terminal_at_ms bigint,
    retain_until_ms bigint
);

create type ff_completed_row_7 as (
    partition_key smallint, execution_id uuid, at tid, before bigint, epoch bigint,
    attempt_ran_ms bigint, retain_until_ms bigint, result_encoding text, result bytea,
    result_digest bigint, claim_id uuid, until_ms bigint, turn integer
);
