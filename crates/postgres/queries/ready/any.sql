-- Whether anything is in the queues of some lanes ($1) that suit a worker ($2), held or not.
select exists (
    select 1 from ff_queue q
    cross join lateral (select 1 from ff_ready r where r.queue = q.queue limit 1) r
    where q.lane_id = any($1::text[]) and q.capabilities <@ $2::text[]
) as any
