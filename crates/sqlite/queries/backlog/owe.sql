-- A flow owes the end of a member; it may be owed already.
insert into ff_cancel_backlog_member (partition_key, flow_id, execution_id) values (?1, ?2, ?3)
on conflict (partition_key, flow_id, execution_id) do nothing
