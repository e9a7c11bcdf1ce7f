-- Removes what is left of a flow.
delete from ff_pending_cancel_groups where partition_key = ?1 and flow_id = ?2
