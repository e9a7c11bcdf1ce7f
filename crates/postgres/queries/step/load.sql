-- Some steps.
select
    s.partition_key, s.execution_id, s.number, s.attempt_index, s.kind, s.name, s.operation,
    s.outcome, s.time_ms, s.ran_ms, s.at_ms, s.encoding, s.bytes
from unnest($1::smallint[], $2::uuid[], $3::integer[]) as i (partition_key, execution_id, number)
join ff_step s
    on s.partition_key = i.partition_key and s.execution_id = i.execution_id
    and s.number = i.number
