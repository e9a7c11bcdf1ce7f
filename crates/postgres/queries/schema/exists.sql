-- Whether a schema was ever migrated.
select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relname = 'refinery_schema_history' and n.nspname = $1
