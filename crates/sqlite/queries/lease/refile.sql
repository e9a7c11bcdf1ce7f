-- Has the sweep look at a lease at another time.
update ff_lease set renewed_at_ms = ?4, until_ms = ?5, check_at_ms = ?6
where partition_key = ?1 and execution_id = ?2 and epoch = ?3
