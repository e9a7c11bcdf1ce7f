-- Removes the edges of flows.
delete from ff_edge t
using unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
where t.partition_key = i.partition_key and t.flow_id = i.flow_id
