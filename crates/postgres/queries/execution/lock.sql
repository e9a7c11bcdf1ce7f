-- Locks executions in the order of their keys, before anything is read.
select 1 from ff_exec_core x
join unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
    on x.partition_key = i.partition_key and x.execution_id = i.execution_id
order by x.partition_key, x.execution_id
for no key update of x
