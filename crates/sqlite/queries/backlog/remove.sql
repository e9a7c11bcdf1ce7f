-- A flow owes nothing any more.
delete from ff_cancel_backlog where partition_key = ?1 and flow_id = ?2
