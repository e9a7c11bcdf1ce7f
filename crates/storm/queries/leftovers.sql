-- Rows that should not be there when everything has ended and what was to be removed is gone: what, how
-- many, and one of them. ID( becomes the function of the store that writes an id as text.
select l.what, l.rows_left, l.example
from (
select 'ff_payload of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_payload t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_step of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_step t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_attempt of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_attempt t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_tag of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_tag t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_timer of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_timer t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_lease of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_lease t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_ready of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_ready t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_suspension_current of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_suspension_current t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_waitpoint of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_waitpoint t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_signal of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_signal t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_suspend_key of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_suspend_key t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_dispatch of an execution that is gone' as what, count(*) as rows_left, min(ID(t.execution_id)) as example
from ff_dispatch t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.execution_id
)
union all
select 'ff_edge whose upstream_id is gone', count(*), min(ID(t.upstream_id))
from ff_edge t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.upstream_id
)
union all
select 'ff_edge whose downstream_id is gone', count(*), min(ID(t.downstream_id))
from ff_edge t
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = t.partition_key and x.execution_id = t.downstream_id
)
union all
select 'ff_edge of a flow that is gone', count(*), min(ID(t.flow_id))
from ff_edge t
where not exists (
    select 1 from ff_flow_core f
    where f.partition_key = t.partition_key and f.flow_id = t.flow_id
)
union all
select 'ff_edge_group of a flow that is gone', count(*), min(ID(t.flow_id))
from ff_edge_group t
where not exists (
    select 1 from ff_flow_core f
    where f.partition_key = t.partition_key and f.flow_id = t.flow_id
)
union all
select 'ff_cancel_backlog of a flow that is gone', count(*), min(ID(t.flow_id))
from ff_cancel_backlog t
where not exists (
    select 1 from ff_flow_core f
    where f.partition_key = t.partition_key and f.flow_id = t.flow_id
)
union all
select 'ff_cancel_backlog_member of a flow that is gone', count(*), min(ID(t.flow_id))
from ff_cancel_backlog_member t
where not exists (
    select 1 from ff_flow_core f
    where f.partition_key = t.partition_key and f.flow_id = t.flow_id
)
union all
select 'ff_pending_cancel_groups of a flow that is gone', count(*), min(ID(t.flow_id))
from ff_pending_cancel_groups t
where not exists (
    select 1 from ff_flow_core f
    where f.partition_key = t.partition_key and f.flow_id = t.flow_id
)
union all
select 'ff_cancel_backlog, though everything has ended', count(*), min(ID(t.flow_id))
from ff_cancel_backlog t
union all
select 'ff_pending_cancel_groups, though everything has ended', count(*), min(ID(t.flow_id))
from ff_pending_cancel_groups t
union all
select 'ff_dispatch, though everything has ended', count(*), min(ID(t.flow_id))
from ff_dispatch t
union all
select 'ff_lease of an execution that has ended', count(*), min(ID(t.execution_id))
from ff_lease t
join ff_exec_core x on x.partition_key = t.partition_key and x.execution_id = t.execution_id
where x.phase = 'terminal'
union all
select 'ff_ready of an execution that has ended', count(*), min(ID(t.execution_id))
from ff_ready t
join ff_exec_core x on x.partition_key = t.partition_key and x.execution_id = t.execution_id
where x.phase = 'terminal'
union all
select 'ff_timer of an execution that has ended', count(*), min(ID(t.execution_id))
from ff_timer t
join ff_exec_core x on x.partition_key = t.partition_key and x.execution_id = t.execution_id
where x.phase = 'terminal' and t.kind <> 'retention'
union all
select 'ff_suspension_current, open, of an execution that is not suspended', count(*),
    min(ID(t.execution_id))
from ff_suspension_current t
join ff_exec_core x on x.partition_key = t.partition_key and x.execution_id = t.execution_id
where x.phase <> 'suspended' and t.closed_at_ms is null
union all
select 'ff_waitpoint, open, of an execution that has ended', count(*), min(ID(t.execution_id))
from ff_waitpoint t
join ff_exec_core x on x.partition_key = t.partition_key and x.execution_id = t.execution_id
where x.phase = 'terminal' and t.state <> 'closed'
union all
select 'ff_exec_core that was to be removed', count(*), min(ID(x.execution_id))
from ff_exec_core x
where x.phase = 'terminal' and x.flow_id is null and x.retain_until_ms < (select max(at_ms) from ff_event) - 5000
union all
select 'ff_event of what is gone', count(*), min(ID(e.execution_id))
from ff_event e
where not exists (
    select 1 from ff_exec_core x
    where x.partition_key = e.partition_key and x.execution_id = e.execution_id
) and not exists (
    select 1 from ff_flow_core f
    where f.partition_key = e.partition_key and f.flow_id = e.execution_id
)
) l
where l.rows_left > 0
