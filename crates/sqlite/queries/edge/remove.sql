-- Removes the edges of a flow.
delete from ff_edge where partition_key = ?1 and flow_id = ?2
