-- What is still held under a claim.
select partition_key, execution_id from ff_lease where claim_id = ?1 and until_ms > ?2
order by partition_key, execution_id
