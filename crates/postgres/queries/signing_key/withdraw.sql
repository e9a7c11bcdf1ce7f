-- Ends old keys before their time. Whoever else changes keys meanwhile finds that another one signs.
update ff_signing_key k set expires_at_ms = $2::bigint
from unnest($1::text[]) as i (kid)
where k.kid = i.kid
