-- Flows that owe the end of members, oldest first, for some namespace ($2) or tag ($3, $4).
select c.flow_id from ff_cancel_backlog c
where (($2::text is null and $3::text is null) or exists (
        select 1 from ff_flow_core f
        where f.partition_key = c.partition_key and f.flow_id = c.flow_id
            and ($2 is null or f.namespace = $2)
            and ($3 is null or f.tags::jsonb ->> $3 = $4::text)
    ))
order by c.requested_at_ms, c.partition_key, c.flow_id
limit $1::bigint
