-- A flow does not owe the end of a member any more.
delete from ff_cancel_backlog_member
where partition_key = ?1 and flow_id = ?2 and execution_id = ?3
