-- Rows on their way in that say only what being claimed, or being completed, may change: most rows that
-- are ever sent are these, and unpacking them was an eighth of what a server does for an execution.

create type ff_claim_row as (
    partition_key smallint, execution_id uuid, at tid, place tid, before bigint, version bigint,
    epoch bigint, attempts integer, progress_percent integer, progress_message text,
    progress_at_ms bigint, started_at_ms bigint, updated_at_ms bigint, attempt_index integer,
    attempt_kind text, worker_id text, worker_instance_id text, attempt_started_at_ms bigint,
    attempt_ran_ms bigint, claim_id uuid, resumed boolean, timeout_at_ms bigint,
    failure_reason text, failure_category text, until_ms bigint, check_at_ms bigint
);

create type ff_complete_row as (
    partition_key smallint, execution_id uuid, at tid, before bigint, version bigint, epoch bigint,
    updated_at_ms bigint, attempt_ran_ms bigint, has_result boolean, retain_until_ms bigint,
    result_attempt integer, result_encoding text, result bytea, claim_id uuid, lease_epoch bigint,
    until_ms bigint, turn integer
);
