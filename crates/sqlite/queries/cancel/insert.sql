-- Has the siblings of a group be cancelled.
insert into ff_pending_cancel_groups (partition_key, flow_id, downstream_id, enqueued_at_ms)
values (?1, ?2, ?3, ?4)
