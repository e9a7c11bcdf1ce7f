-- Edges into an execution ($5), by id, after one ($3).
select
    partition_key, flow_id, edge_id, upstream_id, downstream_id, kind, name, data_passing_ref,
    round, created_at_ms, state, applied_at_ms, resolved_at_ms
from ff_edge
where partition_key = $1 and flow_id = $2 and downstream_id = $5
    and ($3::uuid is null or edge_id > $3)
order by edge_id
limit $4::bigint
