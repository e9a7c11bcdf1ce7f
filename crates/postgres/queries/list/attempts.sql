-- Attempts of an execution that are over, after one.
select
    attempt_index, kind, worker_id, worker_instance_id, started_at_ms, ended_at_ms, outcome,
    failure_reason, failure_category
from ff_attempt
where partition_key = $1 and execution_id = $2 and attempt_index > coalesce($3::integer, -1)
order by attempt_index
limit $4
