-- Closes the waitpoints that executions waited at when they ended. That they are active is said
-- without the column of the partial indexes, which a young table would be searched by.
update ff_waitpoint w set
    state = 'closed', closed_at_ms = i.at_ms, close_reason = 'cancelled', expires_at_ms = null
from unnest($1::smallint[], $2::uuid[], $3::bigint[]) as i (partition_key, execution_id, at_ms)
where w.partition_key = i.partition_key and w.execution_id = i.execution_id
    and w.closed_at_ms is null and w.activated_at_ms is not null
