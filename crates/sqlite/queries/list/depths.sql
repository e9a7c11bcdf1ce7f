-- How much is claimable in each queue, counted up to a bound (?1), and since when the first waits.
select
    q.lane_id,
    (select count(*) from (select 1 from ff_ready r where r.queue = q.queue limit ?1)) as waiting,
    (
        select r.turn_ms from ff_ready r where r.queue = q.queue
        order by r.rank, r.turn_ms, r.partition_key, r.execution_id limit 1
    ) as first_ms
from ff_queue q
