-- Of some executions, those whose row or lease another transaction holds at this moment.
with own as materialized (
    select x.partition_key, x.execution_id, x.claim_id
    from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
    join ff_exec_core x
        on x.partition_key = i.partition_key and x.execution_id = i.execution_id
), free as materialized (
    select x.partition_key, x.execution_id from own o
    join ff_exec_core x using (partition_key, execution_id)
    for no key update of x skip locked
), renewable as materialized (
    select l.partition_key, l.execution_id from own o
    join ff_lease l using (claim_id, partition_key, execution_id)
    for update of l skip locked
)
select o.partition_key, o.execution_id from own o
left join free f using (partition_key, execution_id)
left join renewable r using (partition_key, execution_id)
where f.execution_id is null or o.claim_id is not null and r.execution_id is null
