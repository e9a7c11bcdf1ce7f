-- Has the flow of a member be told that it ended.
insert into ff_dispatch (partition_key, execution_id, flow_id, at_ms) values (?1, ?2, ?3, ?4)
