-- Groups whose siblings are to be cancelled, oldest first, for some namespace ($2) or tag ($3, $4)
-- of the flow: those that say so themselves ($5), or the others.
select c.partition_key, c.downstream_id as execution_id, c.flow_id
from ff_pending_cancel_groups c
where $5::boolean = exists (
        select 1 from ff_edge_group g
        where g.partition_key = c.partition_key and g.flow_id = c.flow_id
            and g.downstream_id = c.downstream_id and g.cancel_siblings_pending
        offset 0
    )
    and (($2::text is null and $3::text is null) or exists (
        select 1 from ff_flow_core f
        where f.partition_key = c.partition_key and f.flow_id = c.flow_id
            and ($2 is null or f.namespace = $2)
            and ($3 is null or f.tags::jsonb ->> $3 = $4::text)
    ))
order by c.enqueued_at_ms, c.partition_key, c.flow_id, c.downstream_id
limit $1::bigint
