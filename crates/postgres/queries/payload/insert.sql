-- Keeps bytes.
insert into ff_payload (
    partition_key, execution_id, kind, attempt_index, encoding, bytes
)
select * from unnest($1::ff_payload_row[])
