-- Has the siblings of groups be cancelled. A group may have fired before, and not be done.
insert into ff_pending_cancel_groups (partition_key, flow_id, downstream_id, enqueued_at_ms)
select * from unnest($1::smallint[], $2::uuid[], $3::uuid[], $4::bigint[])
on conflict (partition_key, flow_id, downstream_id)
do update set enqueued_at_ms = excluded.enqueued_at_ms
