-- How many members of a flow hold the same columns; ff-core turns those into states.
select
    phase, outcome, held_at_ms is null and coalesce(wait_until_ms > ?3, 0) as waits, gated,
    count(*) as count
from ff_exec_core indexed by ff_exec_core_flow
where partition_key = ?1 and flow_id = ?2
group by 1, 2, 3, 4
