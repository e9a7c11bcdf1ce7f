-- Ids of a partition, ascending, after one.
select partition_key, execution_id from ff_exec_core
where partition_key = ?1 and execution_id > coalesce(?2, x'')
order by execution_id
limit ?3
