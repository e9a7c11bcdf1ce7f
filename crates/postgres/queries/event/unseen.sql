-- Of some executions, those with an event that some durable consumer has yet to deal with.
select i.partition_key, i.execution_id
from unnest($1::smallint[], $2::uuid[]) as i (partition_key, execution_id)
where exists (
    select 1 from ff_event e cross join ff_consumer c
    where e.partition_key = i.partition_key and e.execution_id = i.execution_id
        and not (
            pg_visible_in_snapshot(e.xid, c.base)
            or (e.seq <= c.after_seq and pg_visible_in_snapshot(e.xid, c.upto))
        )
)
