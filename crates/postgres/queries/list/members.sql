-- Members of a flow, by id, after one ($3).
select partition_key, execution_id from ff_exec_core
where partition_key = $1 and flow_id = $2 and ($3::uuid is null or execution_id > $3)
order by execution_id
limit $4::bigint
