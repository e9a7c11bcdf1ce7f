-- Where a consumer stands.
select seq, updated_at_ms from ff_consumer where name = ?1
