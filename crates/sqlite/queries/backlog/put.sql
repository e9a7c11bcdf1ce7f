-- A flow owes the end of members.
insert into ff_cancel_backlog (partition_key, flow_id, requested_at_ms) values (?1, ?2, ?3)
on conflict (partition_key, flow_id) do update set requested_at_ms = excluded.requested_at_ms
