-- What became of each step: its result, a failure, a time that came, an arm that won. And which operation
-- of the handler it is, because operations side by side are recorded in no fixed order. What earlier
-- versions recorded is done, and its number says which operation it is.
create table ff_step_5 (
    partition_key integer not null,
    execution_id blob not null,
    number integer not null check (number >= 0),
    attempt_index integer not null check (attempt_index >= 0),
    kind text not null check (
        kind = 'run' or kind = 'sleep' or kind = 'now' or kind = 'random' or kind = 'wait'
        or kind = 'waitpoint' or kind = 'children' or kind = 'race'
        or kind = 'timeout' or kind = 'generation'
    ),
    name text not null,
    operation text,
    outcome text not null default 'done' check (
        outcome = 'done' or outcome = 'failed' or outcome = 'fired' or outcome = 'won'
        or outcome = 'abandoned' or outcome = 'open'
    ),
    time_ms integer,
    ran_ms integer not null check (ran_ms >= 0),
    at_ms integer not null,
    encoding text,
    bytes blob not null,
    primary key (partition_key, execution_id, number)
) strict;
insert into ff_step_5 (
    partition_key, execution_id, number, attempt_index, kind, name, ran_ms, at_ms, encoding, bytes
)
select
    partition_key, execution_id, number, attempt_index, kind, name, ran_ms, at_ms, encoding, bytes
from ff_step;
drop table ff_step;
alter table ff_step_5 rename to ff_step;
