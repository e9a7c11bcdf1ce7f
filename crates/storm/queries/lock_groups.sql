-- Locks groups whose members have not all ended, as a stuck transaction would.
select g.downstream_id from ff_edge_group g
where g.state = 'pending'
order by random()
limit $1::bigint
for update skip locked
