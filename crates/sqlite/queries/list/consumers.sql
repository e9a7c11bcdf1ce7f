-- Consumers in order, after one.
select name from ff_consumer
where name > coalesce(?1, '')
order by name
limit ?2
