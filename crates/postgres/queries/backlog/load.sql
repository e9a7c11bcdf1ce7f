-- Of some flows, those that owe the end of members.
select b.flow_id, b.requested_at_ms
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, flow_id)
join ff_cancel_backlog b on b.partition_key = i.partition_key and b.flow_id = i.flow_id
