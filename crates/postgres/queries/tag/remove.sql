-- Takes tags back.
delete from ff_tag g
using unnest($1::text[], $2::text[], $3::smallint[], $4::uuid[])
    as i (key, value, partition_key, execution_id)
where g.key = i.key and g.value = i.value and g.partition_key = i.partition_key
    and g.execution_id = i.execution_id
