-- Reads bytes, wherever they stand.
select p.partition_key, p.execution_id, p.kind, p.attempt_index, p.encoding, p.bytes
from unnest($1::smallint[], $2::uuid[], $3::text[], $4::integer[])
    as i (partition_key, execution_id, kind, attempt_index)
join ff_payload p
    on p.partition_key = i.partition_key and p.execution_id = i.execution_id
    and p.kind = i.kind and p.attempt_index = i.attempt_index
union all
select
    x.partition_key, x.execution_id, i.kind, i.attempt_index,
    case i.kind when 'input' then x.input_encoding else x.result_encoding end,
    case i.kind when 'input' then x.input else x.result end
from unnest($1::smallint[], $2::uuid[], $3::text[], $4::integer[])
    as i (partition_key, execution_id, kind, attempt_index)
join ff_exec_core x
    on x.partition_key = i.partition_key and x.execution_id = i.execution_id
where case i.kind when 'input' then x.input is not null
    else x.result_attempt = i.attempt_index end
