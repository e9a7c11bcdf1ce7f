-- When the time of the next flow is up.
select min(trim_at_ms) from ff_flow_core where trim_at_ms > ?1
