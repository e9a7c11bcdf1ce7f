-- Lanes in order, after one.
select distinct lane_id from ff_queue
where ?1 is null or lane_id > ?1
order by lane_id
limit ?2
