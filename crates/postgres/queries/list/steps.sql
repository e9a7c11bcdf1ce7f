-- Steps of an execution, by number, after one ($3).
select
    partition_key, execution_id, number, attempt_index, kind, name, operation, outcome, time_ms,
    ran_ms, at_ms, encoding, bytes
from ff_step
where partition_key = $1 and execution_id = $2 and number > coalesce($3::integer, -1)
order by number
limit $4
