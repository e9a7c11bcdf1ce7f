-- How many bytes the results of executions have, wherever they stand.
select p.partition_key, p.execution_id, p.attempt_index, p.size
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
cross join lateral (
    select p.partition_key, p.execution_id, p.attempt_index, octet_length(p.bytes) as size
    from ff_payload p
    where p.partition_key = i.partition_key and p.execution_id = i.execution_id
        and p.kind = 'result'
    -- Where there are few results, it would look for those first.
    offset 0
) p
union all
select x.partition_key, x.execution_id, x.result_attempt, octet_length(x.result)
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
join ff_exec_core x
    on x.partition_key = i.partition_key and x.execution_id = i.execution_id
where x.result is not null
