-- The numbers of our row types and of arrays of them.
select t.typname::text as name, t.oid, t.typarray from pg_type t
join pg_namespace n on n.oid = t.typnamespace
where n.nspname = $1 and t.typname = any($2)
