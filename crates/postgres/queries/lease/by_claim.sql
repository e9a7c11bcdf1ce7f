-- What is still held under claims.
select claim_id, partition_key, execution_id from ff_lease
where claim_id = any($1::uuid[]) and until_ms > $2
order by partition_key, execution_id
