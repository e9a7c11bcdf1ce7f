-- The first members of a flow, by id.
select partition_key, execution_id from ff_exec_core indexed by ff_exec_core_flow
where partition_key = ?1 and flow_id = ?2
order by execution_id
limit ?3
