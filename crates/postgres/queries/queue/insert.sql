-- Registers queues, unless they are known. Capabilities come as JSON lists.
insert into ff_queue (queue, lane_id, capabilities)
select i.queue, i.lane_id, array(select jsonb_array_elements_text(i.capabilities::jsonb))
from unnest($1::bigint[], $2::text[], $3::text[]) as i (queue, lane_id, capabilities)
on conflict (queue) do nothing
