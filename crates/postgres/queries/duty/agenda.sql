-- When the first thing that each duty looks after is, or was, due. Each is the first entry of an
-- index. Behind them, whether anything can be claimed, and when the first delay is over.
select 'lease_expiry'::text as duty, (select min(check_at_ms) from ff_lease) as first_ms
union all
select 'attempt_timeout', (select min(due_ms) from ff_timer where kind = 'attempt_timeout')
union all
select 'deadline', (select min(due_ms) from ff_timer where kind = 'deadline')
union all
select 'suspension_timeout', (select min(due_ms) from ff_timer where kind = 'suspension')
union all
select 'waitpoint_expiry', (select min(expires_at_ms) from ff_waitpoint where state = 'pending')
union all
select 'idempotency_expiry', (select min(expires_at_ms) from ff_idempotency)
union all
select 'retention', (select min(due_ms) from ff_timer where kind = 'retention')
union all
select 'retention', (select min(due_ms) from ff_retention)
union all
select 'retention', (select min(trim_at_ms) from ff_flow_core where trim_at_ms is not null)
union all
select 'completion_dispatch', (select min(at_ms) from ff_dispatch)
union all
select 'edge_cancel_dispatcher', (select min(enqueued_at_ms) from ff_pending_cancel_groups)
union all
select 'edge_cancel_reconciler', (select min(enqueued_at_ms) from ff_pending_cancel_groups)
union all
select 'cancel_backlog', (select min(requested_at_ms) from ff_cancel_backlog)
union all
select 'dependency_reconciler', (select 0 from ff_edge_group where state = 'pending' limit 1)
union all
select 'ready', (select min(queue) from ff_ready)
union all
select 'delay', (select min(due_ms) from ff_timer where kind = 'delay')
