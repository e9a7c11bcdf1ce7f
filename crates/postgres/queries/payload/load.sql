-- Reads bytes.
select p.partition_key, p.execution_id, p.kind, p.attempt_index, p.encoding, p.bytes
from unnest($1::smallint[], $2::uuid[], $3::text[], $4::integer[])
    as i (partition_key, execution_id, kind, attempt_index)
join ff_payload p
    on p.partition_key = i.partition_key and p.execution_id = i.execution_id
    and p.kind = i.kind and p.attempt_index = i.attempt_index
