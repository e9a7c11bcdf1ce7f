-- Executions by namespace, kind, stored state and time of creation (from $10), newest first,
-- before a place ($11, $12, $13). $6 asks for those that wait or do not at $7, $15 for those that
-- wait for others or do not. Taken lane by lane and merged: lanes are few, and an index over all
-- executions would cost every creation. A lane or a tag is looked up by the statements beside this
-- one, which take the same parameters.
select x.partition_key, x.execution_id, x.created_at_ms
from (select distinct lane_id from ff_queue) q
cross join lateral (
    select x.created_at_ms, x.partition_key, x.execution_id from ff_exec_core x
    where x.lane_id = q.lane_id and $1::text is null and $8::text is null and $9::text is null
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
) x
order by x.created_at_ms desc, x.partition_key desc, x.execution_id desc
limit $14::bigint
