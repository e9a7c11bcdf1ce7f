-- What a repeated suspension is answered with.
select
    partition_key, execution_id, idempotency_key, suspension_id, waitpoints, already_satisfied,
    expires_at_ms
from ff_suspend_key
where partition_key = ?1 and execution_id = ?2 and idempotency_key = ?3
