-- Ids of a partition, ascending, after one.
select partition_key, execution_id from ff_exec_core
where partition_key = $1 and ($2::uuid is null or execution_id > $2)
order by execution_id
limit $3
