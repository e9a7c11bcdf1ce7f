-- Of some attempts, those that recorded a step. Theirs are most likely the last ones of an execution.
select i.partition_key, i.execution_id, i.attempt_index
from unnest($1::smallint[], $2::uuid[], $3::integer[])
    as i (partition_key, execution_id, attempt_index)
cross join lateral (
    select 1 from ff_step s
    where s.partition_key = i.partition_key and s.execution_id = i.execution_id
        and s.attempt_index = i.attempt_index
    order by s.number desc
    limit 1
) as last
