-- Fails unless the key that signs is still this one, installed at this time: then no key has changed
-- since they were read.
select 1 / (count(*) = 1)::integer
from ff_signing_key
where kid = $1::text and created_at_ms = $2::bigint and expires_at_ms is null
