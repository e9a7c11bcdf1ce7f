-- Consumers in order, after one.
select name from ff_consumer
where name collate "C" > coalesce($1::text, '')
order by name collate "C"
limit $2
