-- Rows on their way in that leave out what follows from the rows that they change, and what all of a
-- batch have in common. Processes of earlier versions still send ff_complete_row.

create type ff_first_row as (
    partition_key smallint, execution_id uuid, at tid, place tid, before bigint, epoch bigint
);

create type ff_completed_row as (
    partition_key smallint, execution_id uuid, at tid, before bigint, epoch bigint,
    attempt_ran_ms bigint, retain_until_ms bigint, result_encoding text, result bytea,
    claim_id uuid, until_ms bigint, turn integer
);

-- Finished executions that are to be removed at the same time, as one batch ended them: one row for all
-- of them, where a timer each was a tenth of what ending them costs. One that was replayed stays listed:
-- whoever looks here checks that it is still to be removed at that time. Whoever takes the last such
-- execution out deletes the row.
create table ff_retention (
    due_ms bigint not null,
    partition_keys smallint[] not null,
    execution_ids uuid[] not null
);

-- Ids do not get smaller.
alter table ff_retention alter execution_ids set storage external;

-- Rows have no key of their own. They are inserted and deleted, never updated.
alter table ff_retention replica identity full;

create index ff_retention_due on ff_retention (due_ms);
