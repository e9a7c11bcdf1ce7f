-- Files a tag.
insert into ff_tag (key, value, partition_key, execution_id) values (?1, ?2, ?3, ?4)
