-- What is claimable, by lane.
select q.lane_id, count(*), cast(null as text)
from ff_ready r join ff_queue q on q.queue = r.queue
group by q.lane_id
