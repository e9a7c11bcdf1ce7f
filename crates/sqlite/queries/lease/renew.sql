-- Renews a lease: touches no column that an index holds.
update ff_lease set renewed_at_ms = ?4, until_ms = ?5
where partition_key = ?1 and execution_id = ?2 and epoch = ?3
