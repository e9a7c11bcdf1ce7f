-- Members of a flow, by id, after one (?3).
select partition_key, execution_id from ff_exec_core indexed by ff_exec_core_flow
where partition_key = ?1 and flow_id = ?2 and execution_id > coalesce(?3, x'')
order by execution_id
limit ?4
