-- Executions with a tag ($8, $9), of any lane; else as list/executions.sql. Tags are few, so
-- those that carry it are found first and put in order.
select x.partition_key, x.execution_id, x.created_at_ms from ff_tag g
join ff_exec_core x
    on x.partition_key = g.partition_key and x.execution_id = g.execution_id
where g.key = $8::text and g.value = $9::text and $1::text is null
    and ($2::text is null or x.namespace = $2)
    and ($3::text is null or x.kind = $3)
    and ($4::text is null or x.phase = $4)
    and ($5::text is null or x.outcome = $5)
    and ($6::boolean is null
        or $6 = (x.held_at_ms is null and coalesce(x.wait_until_ms > $7::bigint, false)))
    and ($15::boolean is null or x.gated = $15)
    and x.created_at_ms >= $10::bigint
    and (x.created_at_ms, x.partition_key, x.execution_id)
        < ($11::bigint, $12::smallint, $13::uuid)
order by x.created_at_ms desc, x.partition_key desc, x.execution_id desc
limit $14::bigint
