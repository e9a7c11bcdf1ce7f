-- Keeps bytes.
insert into ff_payload (
    partition_key, execution_id, kind, attempt_index, encoding, bytes
)
select * from unnest(
    $1::smallint[], $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::bytea[]
)
