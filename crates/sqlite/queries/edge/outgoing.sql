-- Loads the edges out of an execution.
select
    partition_key, flow_id, edge_id, upstream_id, downstream_id, kind, name, data_passing_ref,
    round, created_at_ms, state, applied_at_ms, resolved_at_ms
from ff_edge indexed by ff_edge_upstream
where partition_key = ?1 and flow_id = ?2 and upstream_id = ?3
