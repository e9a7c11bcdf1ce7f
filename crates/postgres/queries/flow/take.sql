-- Locks flows that still have the version that something was decided on. If somebody else holds one, or
-- has changed it ($4), it divides by zero: nobody waits.
with taken as (
    select 1 from ff_flow_core f
    join unnest($1::smallint[], $2::uuid[], $3::bigint[]) as i (partition_key, flow_id, before)
        on f.partition_key = i.partition_key and f.flow_id = i.flow_id
    where f.version = i.before
    order by f.partition_key, f.flow_id
    for no key update of f skip locked
)
select 1 / (count(*) = $4::bigint)::integer from taken
