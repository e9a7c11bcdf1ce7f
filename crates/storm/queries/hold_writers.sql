-- Lets others read, but not write, until the connection ends.
begin;
lock table ff_exec_core, ff_lease, ff_flow_core, ff_ready, ff_timer, ff_dispatch, ff_event, ff_consumer
in exclusive mode
