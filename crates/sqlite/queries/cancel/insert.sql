-- Has the siblings of a group be cancelled. It may have fired before, and not be done.
insert into ff_pending_cancel_groups (partition_key, flow_id, downstream_id, enqueued_at_ms)
values (?1, ?2, ?3, ?4)
on conflict (partition_key, flow_id, downstream_id)
do update set enqueued_at_ms = excluded.enqueued_at_ms
