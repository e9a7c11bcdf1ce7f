-- Records a step.
insert into ff_step (
    partition_key, execution_id, number, attempt_index, kind, name, operation, outcome, time_ms,
    ran_ms, at_ms, encoding, bytes
) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
