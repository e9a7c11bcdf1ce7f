-- Removes the batches that were to be removed at some times ($1) and of which nothing is to be any more.
delete from ff_retention r
where r.due_ms = any($1::bigint[]) and not exists (
    select 1 from unnest(r.partition_keys, r.execution_ids) i (partition_key, execution_id)
    join ff_exec_core x
        on x.partition_key = i.partition_key and x.execution_id = i.execution_id
    where x.retain_until_ms = r.due_ms and x.flow_id is null
)
