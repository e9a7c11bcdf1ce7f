-- What became of each step: its result, a failure, a time that came, an arm that won. And which operation
-- of the handler it is, because operations side by side are recorded in no fixed order. What earlier
-- versions recorded is done, and its number says which operation it is.
alter table ff_step add column operation text;
alter table ff_step add column outcome text not null default 'done'
    check (outcome = 'done' or outcome = 'failed' or outcome = 'fired' or outcome = 'won'
        or outcome = 'abandoned' or outcome = 'open');
alter table ff_step add column time_ms bigint;

alter domain ff_step_kind drop constraint ff_step_kind_check;
alter domain ff_step_kind add constraint ff_step_kind_check
    check (value in ('run', 'sleep', 'now', 'random', 'wait', 'waitpoint', 'children', 'race',
    'timeout', 'generation'));

-- The rows on their way in, with it. Servers of earlier versions send those without; their workers are
-- stopped first, because they take a recorded failure for a result.
create type ff_step_row_8 as (
    partition_key smallint, execution_id uuid, number integer, attempt_index integer, kind text,
    name text, operation text, outcome text, time_ms bigint, ran_ms bigint, at_ms bigint,
    encoding text, bytes bytea
);
