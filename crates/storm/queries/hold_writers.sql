-- Lets others read, but not write, until the connection ends.
begin;
lock table ff_exec_core in exclusive mode
