-- Loads the edges out of executions.
select
    e.partition_key, e.flow_id, e.edge_id, e.upstream_id, e.downstream_id, e.kind, e.name,
    e.data_passing_ref, e.round, e.created_at_ms, e.state, e.applied_at_ms, e.resolved_at_ms
from unnest($1::smallint[], $2::uuid[], $3::uuid[]) as i (partition_key, flow_id, upstream_id)
join ff_edge e
    on e.partition_key = i.partition_key and e.flow_id = i.flow_id
    and e.upstream_id = i.upstream_id
