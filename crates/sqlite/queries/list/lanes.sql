-- Lanes in order, after one.
select distinct lane_id from ff_queue
where lane_id > coalesce(?1, '')
order by lane_id
limit ?2
