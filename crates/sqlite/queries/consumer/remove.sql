-- Forgets a consumer.
delete from ff_consumer where name = ?1
