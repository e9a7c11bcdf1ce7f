-- The newest migration applied.
select coalesce(max(version), 0) from refinery_schema_history
