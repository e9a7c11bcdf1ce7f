-- What lies behind an execution along edges of its flow that are impossible, nearest first, no more
-- than asked for (?4). Left to itself, the planner would walk all edges for each execution.
with recursive behind (execution_id) as (
    select downstream_id from ff_edge indexed by ff_edge_upstream
    where partition_key = ?1 and flow_id = ?2 and upstream_id = ?3 and state = 'impossible'
    union
    select e.downstream_id from behind
    cross join ff_edge e indexed by ff_edge_upstream
        on e.partition_key = ?1 and e.flow_id = ?2 and e.upstream_id = behind.execution_id
        and e.state = 'impossible'
    limit ?4
)
select ?1 as partition_key, execution_id from behind
