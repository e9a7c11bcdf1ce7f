-- The queues of a lane.
select queue, capabilities from ff_queue where lane_id = ?1 order by queue
