-- Has the flows of members be told that they ended.
insert into ff_dispatch (partition_key, execution_id, flow_id, at_ms)
select * from unnest($1::smallint[], $2::uuid[], $3::uuid[], $4::bigint[])
