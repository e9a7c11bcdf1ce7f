-- The number of the newest event ever appended.
select coalesce((select seq from sqlite_sequence where name = 'ff_event'), 0)
