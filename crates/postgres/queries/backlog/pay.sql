-- Flows do not owe the end of these members any more.
delete from ff_cancel_backlog_member t
using unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, execution_id)
where t.partition_key = i.partition_key and t.flow_id = i.flow_id
    and t.execution_id = i.execution_id
