-- Makes executions claimable.
insert into ff_ready (
    queue, rank, turn_ms, partition_key, execution_id
)
select * from unnest(
    $1::bigint[], $2::integer[], $3::bigint[], $4::smallint[], $5::uuid[]
)
