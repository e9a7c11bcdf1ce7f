-- Forgets keys.
delete from ff_signing_key k using unnest($1::text[]) as i (kid)
where k.kid = i.kid
