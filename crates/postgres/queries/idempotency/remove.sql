-- Forgets keys, unless they were given a new meaning since ($3).
delete from ff_idempotency k
using unnest($1::text[], $2::text[]) as i (namespace, key)
where k.namespace = i.namespace and k.key = i.key and k.expires_at_ms <= $3
