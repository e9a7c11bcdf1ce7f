-- Locks the leases of executions that are locked already: nobody renews them before it is written what
-- was decided on them.
select 1 from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
join ff_exec_core x
    on x.partition_key = i.partition_key and x.execution_id = i.execution_id
join ff_lease l
    on l.claim_id = x.claim_id and l.partition_key = x.partition_key
    and l.execution_id = x.execution_id
order by l.partition_key, l.execution_id
for update of l
