-- What can be reached from an execution along the edges of its flow, whatever their state, itself
-- left out unless they form a circle. No more than asked for (?4) is looked at. Left to itself, the
-- planner would walk all edges for each execution that was reached.
with recursive reach (execution_id) as (
    select downstream_id from ff_edge indexed by ff_edge_upstream
    where partition_key = ?1 and flow_id = ?2 and upstream_id = ?3
    union
    select e.downstream_id from reach
    cross join ff_edge e indexed by ff_edge_upstream
        on e.partition_key = ?1 and e.flow_id = ?2 and e.upstream_id = reach.execution_id
    limit ?4
)
select ?1 as partition_key, execution_id from reach
