-- The members of a flow that have not ended, by id.
select partition_key, execution_id, phase from ff_exec_core indexed by ff_exec_core_flow
where partition_key = ?1 and flow_id = ?2 and phase <> 'terminal'
order by execution_id
