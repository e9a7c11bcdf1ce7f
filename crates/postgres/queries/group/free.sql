-- Locks those of some groups that nobody else holds, and says which.
select g.partition_key, g.downstream_id as execution_id, g.flow_id from ff_edge_group g
join unnest($1::smallint[], $2::uuid[], $3::uuid[])
    as i (partition_key, flow_id, downstream_id)
    on g.partition_key = i.partition_key and g.flow_id = i.flow_id
    and g.downstream_id = i.downstream_id
order by g.partition_key, g.flow_id, g.downstream_id
for no key update of g skip locked
