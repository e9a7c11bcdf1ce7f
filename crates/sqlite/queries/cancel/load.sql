-- Whether the siblings of a group are still to be cancelled.
select enqueued_at_ms from ff_pending_cancel_groups
where partition_key = ?1 and flow_id = ?2 and downstream_id = ?3
