-- Keys whose window has passed, in some namespace.
select namespace, key from ff_idempotency
where expires_at_ms <= ?1 and (?3 is null or namespace = ?3)
order by expires_at_ms, namespace, key
limit ?2
