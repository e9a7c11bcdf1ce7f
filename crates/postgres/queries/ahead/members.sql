-- Locks the members of a flow that have not ended, in the order of their keys, and says which. The flow
-- is locked already. What they hold is read by a statement of its own (open.sql): this one still sees
-- the leases as they were before it waited for a lock.
select x.execution_id from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
cross join lateral (
    select x.execution_id from ff_exec_core x
    where x.partition_key = i.partition_key and x.flow_id = i.flow_id and x.phase <> 'terminal'
    order by x.execution_id
    limit $3::bigint
    for no key update of x
) x
