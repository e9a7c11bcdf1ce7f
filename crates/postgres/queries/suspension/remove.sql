-- Removes the suspensions of executions.
delete from ff_suspension_current t
using unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
where t.partition_key = i.partition_key and t.execution_id = i.execution_id
