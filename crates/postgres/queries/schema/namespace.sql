-- Whether there is a schema of this name.
select exists (select 1 from pg_namespace where nspname = $1)
