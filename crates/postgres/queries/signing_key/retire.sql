-- Gives the current key its end. If another process has replaced it since it was read, it divides
-- by zero, and the batch is undone.
with put as (
    update ff_signing_key set expires_at_ms = $2::bigint
    where kid = $1::text and expires_at_ms is null
    returning 1
)
select 1 / (count(*) = 1)::integer from put
