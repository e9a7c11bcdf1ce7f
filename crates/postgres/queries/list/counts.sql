-- How many executions of each lane hold the same columns; ff-core turns those into states. What
-- waits for others in its flow does so whatever else it waits for, and what is suspended is so
-- before its deadline and after.
select
    lane_id, phase, outcome,
    phase = 'runnable' and not gated and held_at_ms is null
        and coalesce(wait_until_ms > $1, false) as waits,
    gated, count(*) as count
from ff_exec_core
group by 1, 2, 3, 4, 5
