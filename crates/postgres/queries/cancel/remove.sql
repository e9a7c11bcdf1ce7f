-- The siblings of groups were cancelled.
delete from ff_pending_cancel_groups t
using unnest($1::smallint[], $2::uuid[], $3::uuid[])
    as i (partition_key, flow_id, downstream_id)
where t.partition_key = i.partition_key and t.flow_id = i.flow_id
    and t.downstream_id = i.downstream_id
