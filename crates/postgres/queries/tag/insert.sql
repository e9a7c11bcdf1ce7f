-- Files tags.
insert into ff_tag (
    key, value, partition_key, execution_id
)
select * from unnest(
    $1::text[], $2::text[], $3::smallint[], $4::uuid[]
)
