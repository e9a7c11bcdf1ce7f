-- Of some executions, or of some flows ($3), those with an event of their own that some durable
-- consumer has yet to deal with: what is in no lane happened to a flow, which may have the id of an
-- execution. As in event/read.sql, a snapshot says nothing about what is numbered above the highest
-- that it saw.
select i.partition_key, i.execution_id
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
where exists (
    select 1 from ff_event e cross join ff_consumer c
    where e.partition_key = i.partition_key and e.execution_id = i.execution_id
        and (e.lane_id is null) = $3::boolean
        and not (
            (e.seq <= c.base_seq and pg_visible_in_snapshot(e.xid, c.base))
            or (e.seq <= least(c.after_seq, c.upto_seq) and pg_visible_in_snapshot(e.xid, c.upto))
        )
)
