-- Removes a flow.
delete from ff_flow_core where partition_key = ?1 and flow_id = ?2
