-- The highest number ever given to an event, also when the event was removed since.
select case when is_called then last_value else 0 end as newest from ff_event_seq_seq
