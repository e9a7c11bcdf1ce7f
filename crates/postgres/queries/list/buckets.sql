-- How many members of a flow hold the same columns; ff-core turns those into states. What waits for
-- others does so whatever else it waits for.
select
    phase, outcome,
    not gated and held_at_ms is null and coalesce(wait_until_ms > $3, false) as waits, gated,
    count(*) as count
from ff_exec_core
where partition_key = $1 and flow_id = $2
group by 1, 2, 3, 4
