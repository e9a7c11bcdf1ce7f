-- Removes the members whose end flows owe.
delete from ff_cancel_backlog_member t
using unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
where t.partition_key = i.partition_key and t.flow_id = i.flow_id
