-- Registers a queue, unless it is known.
insert into ff_queue (queue, lane_id, capabilities) values (?1, ?2, ?3)
on conflict (queue) do nothing
