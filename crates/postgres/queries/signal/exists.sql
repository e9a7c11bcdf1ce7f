-- Of some signals ($3) of executions, those that are there.
select s.partition_key, s.execution_id, s.signal_id
from unnest($1::smallint[], $2::uuid[], $3::uuid[])
    as i (partition_key, execution_id, signal_id)
join ff_signal s
    on s.partition_key = i.partition_key and s.execution_id = i.execution_id
    and s.signal_id = i.signal_id
