-- Executions of a lane ($1), perhaps with a tag ($8, $9); else as list/executions.sql.
select x.partition_key, x.execution_id, x.created_at_ms from ff_exec_core x
where x.lane_id = $1::text
    and ($2::text is null or x.namespace = $2)
    and ($3::text is null or x.kind = $3)
    and ($4::text is null or x.phase = $4)
    and ($5::text is null or x.outcome = $5)
    and ($6::boolean is null
        or $6 = (x.held_at_ms is null and coalesce(x.wait_until_ms > $7::bigint, false)))
    and ($15::boolean is null or x.gated = $15)
    and ($8::text is null or exists (
        select 1 from ff_tag g
        where g.key = $8 and g.value = $9::text
            and g.partition_key = x.partition_key and g.execution_id = x.execution_id
    ))
    and x.created_at_ms >= $10::bigint
    and (x.created_at_ms, x.partition_key, x.execution_id)
        < ($11::bigint, $12::smallint, $13::uuid)
order by x.created_at_ms desc, x.partition_key desc, x.execution_id desc
limit $14::bigint
