-- Appends to the feed, in this order.
insert into ff_event (
    partition_key, execution_id, at_ms, namespace, lane_id, kind, attempt_index, outcome, reason,
    failure_category, worker_id, worker_instance_id, retry_at_ms, priority_from, priority_to
)
select * from unnest(
    $1::smallint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::integer[],
    $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::bigint[], $14::integer[],
    $15::integer[]
)
