-- Locks leases in the order of their executions, for a batch that changes them by more than one
-- statement: each keeps that order, but two batches could still meet in opposite ones.
select 1 from ff_lease l
join unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, execution_id, claim_id)
    on l.claim_id = i.claim_id and l.partition_key = i.partition_key
    and l.execution_id = i.execution_id
order by l.partition_key, l.execution_id
for update of l
