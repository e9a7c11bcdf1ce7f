-- When the sweep has to look again.
select min(check_at_ms) from ff_lease where check_at_ms > ?1
