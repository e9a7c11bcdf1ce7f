-- The time of the database, in milliseconds.
select (extract(epoch from clock_timestamp()) * 1000)::bigint
