-- Whether the file was ever migrated.
select count(*) from sqlite_master where name = 'refinery_schema_history'
