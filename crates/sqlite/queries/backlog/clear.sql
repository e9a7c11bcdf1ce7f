-- Removes the members whose end a flow owes.
delete from ff_cancel_backlog_member where partition_key = ?1 and flow_id = ?2
