-- How many signals an execution has received.
select coalesce(max(number) + 1, 0) as received from ff_signal
where partition_key = ?1 and execution_id = ?2
