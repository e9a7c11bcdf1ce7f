-- How much is claimable in each queue, counted up to a bound ($1), and since when the first waits.
select q.lane_id, n.waiting, f.turn_ms as first_ms
from ff_queue q
cross join lateral (
    select count(*) as waiting
    from (
        -- In the order of the index, which it otherwise would not use.
        select 1 from ff_ready r where r.queue = q.queue
        order by r.rank, r.turn_ms, r.partition_key, r.execution_id
        limit $1::bigint
    ) r
) n
left join lateral (
    select r.turn_ms from ff_ready r where r.queue = q.queue
    order by r.rank, r.turn_ms, r.partition_key, r.execution_id
    limit 1
) f on true
