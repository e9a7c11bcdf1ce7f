-- Forgets consumers.
delete from ff_consumer where name = any($1::text[])
