-- What keys stand for.
select k.namespace, k.key, k.partition_key, k.execution_id, k.fingerprint, k.expires_at_ms
from unnest($1::text[], $2::text[]) as i (namespace, key)
join ff_idempotency k on k.namespace = i.namespace and k.key = i.key
