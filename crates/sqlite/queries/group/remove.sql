-- Removes the groups of a flow.
delete from ff_edge_group where partition_key = ?1 and flow_id = ?2
