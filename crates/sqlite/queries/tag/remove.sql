-- Takes a tag back.
delete from ff_tag where key = ?1 and value = ?2 and partition_key = ?3 and execution_id = ?4
