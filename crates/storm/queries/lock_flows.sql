-- Locks flows that have not ended, as a stuck transaction would.
select f.flow_id from ff_flow_core f
where f.state = 'open'
order by random()
limit $1::bigint
for update skip locked
