-- Lanes in order, after one.
select distinct lane_id collate "C" as lane_id from ff_queue
where lane_id collate "C" > coalesce($1::text, '')
order by lane_id collate "C"
limit $2
