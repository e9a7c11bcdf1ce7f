-- Whether the end of a member is still to be told.
select flow_id, at_ms from ff_dispatch where partition_key = ?1 and execution_id = ?2
