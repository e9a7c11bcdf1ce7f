-- Installs keys: those that were replaced in the same batch have their end. If another process has
-- installed one since they were read, not all of them ($5) are, it divides by zero, and the batch
-- is undone.
with put as (
    insert into ff_signing_key (kid, secret, created_at_ms, expires_at_ms)
    select * from unnest($1::text[], $2::bytea[], $3::bigint[], $4::bigint[])
    on conflict do nothing
    returning 1
)
select 1 / (count(*) = $5::bigint)::integer from put
