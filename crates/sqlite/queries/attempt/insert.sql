-- Keeps an attempt that is over.
insert into ff_attempt (
    partition_key, execution_id, attempt_index, kind, worker_id, worker_instance_id,
    started_at_ms, ended_at_ms, outcome, failure_reason, failure_category
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
