-- Groups whose siblings are to be cancelled, oldest first, whatever they say themselves; else as
-- cancel/due.sql.
select c.partition_key, c.downstream_id as execution_id, c.flow_id
from ff_pending_cancel_groups c
where (($2::text is null and $3::text is null) or exists (
        select 1 from ff_flow_core f
        where f.partition_key = c.partition_key and f.flow_id = c.flow_id
            and ($2 is null or f.namespace = $2)
            and ($3 is null or f.tags::jsonb ->> $3 = $4::text)
    ))
order by c.enqueued_at_ms, c.partition_key, c.flow_id, c.downstream_id
limit $1::bigint
