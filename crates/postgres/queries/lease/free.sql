-- Locks claims ($1) for which a batch leases what it creates, as lease/serving.sql does. If
-- another transaction serves one of them, or one holds a lease at this time ($2), it divides by zero:
-- its caller has repeated it elsewhere, and would not hear of what is leased here.
select 1 / (not exists (
    select from unnest($1::uuid[]) as c (claim_id)
    where not pg_try_advisory_xact_lock(hashtextextended(current_schema() || c.claim_id::text, 0))
        or exists (
            select from ff_lease l where l.claim_id = c.claim_id and l.until_ms > $2::bigint
        )
))::integer as free
