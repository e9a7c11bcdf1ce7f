-- Locks flows that still have the version that something was decided on, and are not others under the
-- same id. If somebody else holds one, or has changed it ($5), it divides by zero: nobody waits.
with taken as (
    select 1 from ff_flow_core f
    join unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::bigint[])
        as i (partition_key, flow_id, before, created_at_ms)
        on f.partition_key = i.partition_key and f.flow_id = i.flow_id
    where f.version = i.before and f.created_at_ms = i.created_at_ms
    order by f.partition_key, f.flow_id
    for no key update of f skip locked
)
select 1 / (count(*) = $5::bigint)::integer from taken
