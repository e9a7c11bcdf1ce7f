-- Of some claims ($1), those that no other transaction serves at this moment. Each is locked until
-- this transaction has ended, so that a repeat of the claim sees what was leased under it.
select c.claim_id from unnest($1::uuid[]) as c (claim_id)
where pg_try_advisory_xact_lock(hashtextextended(current_schema() || c.claim_id::text, 0))
