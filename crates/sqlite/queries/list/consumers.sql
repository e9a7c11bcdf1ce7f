-- Consumers in order, after one.
select name from ff_consumer
where ?1 is null or name > ?1
order by name
limit ?2
