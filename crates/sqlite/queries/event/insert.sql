-- Appends to the feed.
insert into ff_event (
    partition_key, execution_id, at_ms, namespace, lane_id, flow_id, kind, attempt_index, outcome,
    reason, failure_category, worker_id, worker_instance_id, retry_at_ms, priority_from,
    priority_to, members, signal_id, waitpoint_id, source_identity, subject
) values (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
    ?20, ?21
)
