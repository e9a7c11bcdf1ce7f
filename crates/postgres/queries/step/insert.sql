-- Records steps.
insert into ff_step (
    partition_key, execution_id, number, attempt_index, kind, name, operation, outcome, time_ms,
    ran_ms, at_ms, encoding, bytes
)
select
    i.partition_key, i.execution_id, i.number, i.attempt_index, i.kind, i.name, i.operation,
    i.outcome, i.time_ms, i.ran_ms, i.at_ms, i.encoding, i.bytes
from unnest($1::ff_step_row_8[]) i
