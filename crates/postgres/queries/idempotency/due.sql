-- Keys whose window has passed, in some namespace, and when the next one's will have.
select d.namespace, d.key, n.next_ms
from (select min(expires_at_ms) as next_ms from ff_idempotency where expires_at_ms > $1) n
left join (
    select k.namespace, k.key, k.expires_at_ms from ff_idempotency k
    where k.expires_at_ms <= $1 and ($3::text is null or k.namespace = $3)
    order by k.expires_at_ms, k.namespace, k.key
    limit $2
) d on true
order by d.expires_at_ms, d.namespace, d.key
