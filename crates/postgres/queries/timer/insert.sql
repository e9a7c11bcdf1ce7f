-- Files things for later.
insert into ff_timer (
    kind, due_ms, partition_key, execution_id, queue, rank, turn_ms
)
select * from unnest(
    $1::text[], $2::bigint[], $3::smallint[], $4::uuid[], $5::bigint[], $6::integer[],
    $7::bigint[]
)
