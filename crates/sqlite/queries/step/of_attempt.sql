-- Whether an attempt of an execution recorded a step. Its steps are most likely the last ones.
select exists (
    select 1 from ff_step
    where partition_key = ?1 and execution_id = ?2 and attempt_index = ?3
    order by number desc
)
