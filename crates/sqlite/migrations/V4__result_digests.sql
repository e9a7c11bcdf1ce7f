-- A digest of each result and its encoding, beside the execution: a completion that is repeated with
-- another result is refused, and no result is read for that. Of what ended before, nothing is known.
alter table ff_exec_core add column result_digest integer;
