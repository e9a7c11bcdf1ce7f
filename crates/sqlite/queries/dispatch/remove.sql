-- The flow of a member was told.
delete from ff_dispatch where partition_key = ?1 and execution_id = ?2
