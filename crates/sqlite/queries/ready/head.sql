-- The head of one queue: most urgent first, then oldest.
select rank, turn_ms, partition_key, execution_id from ff_ready
where queue = ?1
order by rank, turn_ms, partition_key, execution_id
limit ?2
