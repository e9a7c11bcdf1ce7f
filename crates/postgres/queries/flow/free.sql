-- Locks those of some flows that nobody else holds, and says which.
select f.flow_id from ff_flow_core f
join unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
    on f.partition_key = i.partition_key and f.flow_id = i.flow_id
order by f.partition_key, f.flow_id
for no key update of f skip locked
