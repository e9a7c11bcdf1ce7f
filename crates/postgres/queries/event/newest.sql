-- The number of the newest event ever appended. Asked before a snapshot is taken: whoever begins
-- after that takes a higher one.
select case when is_called then last_value else 0 end as newest from ff_event_seq_seq
