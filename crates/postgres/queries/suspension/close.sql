-- Closes what is open of the suspensions of executions that ended while they were suspended. That
-- it is open is said without the column of the partial index, which a young table would be searched
-- by.
update ff_suspension_current s set
    closed_at_ms = i.at_ms, close_reason = 'cancelled', satisfied_by = '[]'
from unnest($1::smallint[], $2::uuid[], $3::bigint[]) as i (partition_key, execution_id, at_ms)
where s.partition_key = i.partition_key and s.execution_id = i.execution_id
    and s.close_reason is null
