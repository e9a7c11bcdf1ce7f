-- Ends that flows have not been told, oldest first, for some namespace ($2) or tag ($3, $4) of the
-- member.
select d.partition_key, d.execution_id, d.flow_id from ff_dispatch d
where ($2::text is null or exists (
        select 1 from ff_exec_core x
        where x.partition_key = d.partition_key and x.execution_id = d.execution_id
            and x.namespace = $2
    ))
    and ($3::text is null or exists (
        select 1 from ff_tag g
        where g.key = $3 and g.value = $4::text
            and g.partition_key = d.partition_key and g.execution_id = d.execution_id
    ))
order by d.at_ms, d.partition_key, d.execution_id
limit $1::bigint
