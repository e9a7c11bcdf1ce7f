-- Locks executions that have not ended, as a stuck transaction would.
select x.execution_id from ff_exec_core x
where x.phase <> 'terminal'
order by random()
limit $1::bigint
for update skip locked
