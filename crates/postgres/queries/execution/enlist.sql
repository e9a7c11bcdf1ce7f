-- Executions join flows; that happens to each once. They are locked, and what else changes is
-- written by execution/put.sql, which has checked their versions. It stands apart because an index
-- holds the flow: setting it with every change would cost each of them.
update ff_exec_core x set flow_id = i.flow_id, node = i.node
from unnest($1::smallint[], $2::uuid[], $3::uuid[], $4::text[])
    as i (partition_key, execution_id, flow_id, node)
where x.partition_key = i.partition_key and x.execution_id = i.execution_id
