-- Groups that have not fired, after a place (?5, ?6, ?7), and whether each waits for something
-- that has ended or is gone and that nobody is about to tell it, in a flow that is not closed
-- (cancelled with all members, or all are counted: only then there is a time to remove it), for
-- some namespace (?2) or tag (?3, ?4) of the flow. It looks at so many (?1), stuck or not: nothing
-- that works leaves one behind, and finding none must not mean looking at all.
select
    g.flow_id, g.downstream_id,
    exists (
        select 1 from ff_edge e indexed by ff_edge_downstream
        where e.partition_key = g.partition_key and e.flow_id = g.flow_id
            and e.downstream_id = g.downstream_id and e.state = 'unsatisfied'
            and not exists (
                select 1 from ff_exec_core x
                where x.partition_key = e.partition_key and x.execution_id = e.upstream_id
                    and (x.phase <> 'terminal' or exists (
                        select 1 from ff_dispatch d
                        where d.partition_key = x.partition_key
                            and d.execution_id = x.execution_id
                    ))
            )
    ) and exists (
        select 1 from ff_flow_core f
        where f.partition_key = g.partition_key and f.flow_id = g.flow_id
            and coalesce(f.cancellation_policy, '') <> 'cancel_all'
            and (f.cancellation_policy is null or f.trim_at_ms is null)
            and (?2 is null or f.namespace = ?2)
            and (?3 is null or exists (
                select 1 from json_each(f.tags)
                where json_each.key = ?3 and json_each.value = ?4
            ))
    ) as stuck
from ff_edge_group g
where g.state = 'pending' and (g.partition_key, g.flow_id, g.downstream_id) > (?5, ?6, ?7)
order by g.partition_key, g.flow_id, g.downstream_id
limit ?1
