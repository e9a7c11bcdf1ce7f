-- Appends to the feed, in this order.
insert into ff_event (
    partition_key, execution_id, at_ms, namespace, lane_id, flow_id, kind, attempt_index, outcome,
    reason, failure_category, worker_id, worker_instance_id, retry_at_ms, priority_from,
    priority_to, members, signal_id, waitpoint_id, source_identity, subject
)
select * from unnest($1::ff_event_row[])
