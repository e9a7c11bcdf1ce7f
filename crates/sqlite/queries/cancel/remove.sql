-- The siblings of a group were cancelled.
delete from ff_pending_cancel_groups
where partition_key = ?1 and flow_id = ?2 and downstream_id = ?3
