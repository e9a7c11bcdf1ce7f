-- Keeps attempts that are over.
insert into ff_attempt (
    partition_key, execution_id, attempt_index, kind, worker_id, worker_instance_id,
    started_at_ms, ended_at_ms, outcome, failure_reason, failure_category
)
select * from unnest(
    $1::smallint[], $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::text[], $7::bigint[],
    $8::bigint[], $9::text[], $10::text[], $11::text[]
)
