-- Whether a flow owes the end of members.
select requested_at_ms from ff_cancel_backlog where partition_key = ?1 and flow_id = ?2
