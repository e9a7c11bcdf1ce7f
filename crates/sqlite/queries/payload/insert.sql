-- Keeps bytes.
insert into ff_payload (partition_key, execution_id, kind, attempt_index, encoding, bytes)
values (?1, ?2, ?3, ?4, ?5, ?6)
