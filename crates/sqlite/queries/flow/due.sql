-- Flows whose time is up and whose own events every durable consumer has dealt with, for some
-- namespace (?3) or tag (?4, ?5). What is in a lane happened to an execution, which may have the id of
-- the flow.
select f.flow_id from ff_flow_core f
where f.trim_at_ms <= ?1
    and not exists (
        select 1 from ff_event e
        where e.partition_key = f.partition_key and e.execution_id = f.flow_id
            and e.lane_id is null
            and e.seq > (select min(seq) from ff_consumer)
    )
    and (?3 is null or f.namespace = ?3)
    and (?4 is null or exists (
        select 1 from json_each(f.tags) where json_each.key = ?4 and json_each.value = ?5
    ))
order by f.trim_at_ms, f.partition_key, f.flow_id
limit ?2
