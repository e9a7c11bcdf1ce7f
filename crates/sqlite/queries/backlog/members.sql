-- The first members whose end a flow owes, by id.
select partition_key, execution_id from ff_cancel_backlog_member
where partition_key = ?1 and flow_id = ?2
order by execution_id
limit ?3
