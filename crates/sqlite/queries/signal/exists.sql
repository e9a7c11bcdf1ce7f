-- Whether an execution has received a signal of this id.
select exists (
    select 1 from ff_signal where partition_key = ?1 and execution_id = ?2 and signal_id = ?3
)
