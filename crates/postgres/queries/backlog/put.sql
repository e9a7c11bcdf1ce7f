-- Flows owe the end of members.
insert into ff_cancel_backlog (partition_key, flow_id, requested_at_ms)
select * from unnest($1::smallint[], $2::uuid[], $3::bigint[])
on conflict (partition_key, flow_id) do update set requested_at_ms = excluded.requested_at_ms
