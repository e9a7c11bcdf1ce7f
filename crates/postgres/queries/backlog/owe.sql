-- Flows owe the end of these members.
insert into ff_cancel_backlog_member (partition_key, flow_id, execution_id)
select * from unnest($1::smallint[], $2::uuid[], $3::uuid[])
