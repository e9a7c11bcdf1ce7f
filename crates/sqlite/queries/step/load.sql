-- One step of an execution.
select
    number, attempt_index, kind, name, operation, outcome, time_ms, ran_ms, at_ms, encoding, bytes
from ff_step
where partition_key = ?1 and execution_id = ?2 and number = ?3
