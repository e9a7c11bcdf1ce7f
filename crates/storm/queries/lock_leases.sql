-- Locks leases, as a stuck transaction would.
select l.execution_id from ff_lease l
order by random()
limit $1::bigint
for update skip locked
