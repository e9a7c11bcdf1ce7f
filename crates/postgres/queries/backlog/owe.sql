-- Flows owe the end of these members; some may be owed already.
insert into ff_cancel_backlog_member (partition_key, flow_id, execution_id)
select * from unnest($1::smallint[], $2::uuid[], $3::uuid[])
on conflict (partition_key, flow_id, execution_id) do nothing
