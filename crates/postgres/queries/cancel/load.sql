-- Of some groups, those whose siblings are still to be cancelled.
select c.partition_key, c.downstream_id as execution_id, c.flow_id, c.enqueued_at_ms
from unnest($1::smallint[], $2::uuid[], $3::uuid[])
    as i (partition_key, flow_id, downstream_id)
join ff_pending_cancel_groups c
    on c.partition_key = i.partition_key and c.flow_id = i.flow_id
    and c.downstream_id = i.downstream_id
