-- Inserts edges, or changes their state. Whoever does holds their flow.
insert into ff_edge (
    partition_key, flow_id, edge_id, upstream_id, downstream_id, kind, name, data_passing_ref,
    round, created_at_ms, state, applied_at_ms, resolved_at_ms
)
select * from unnest($1::ff_edge_row[])
on conflict (partition_key, flow_id, edge_id) do update set
    state = excluded.state, applied_at_ms = excluded.applied_at_ms,
    resolved_at_ms = excluded.resolved_at_ms
