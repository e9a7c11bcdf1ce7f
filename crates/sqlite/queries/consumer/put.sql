-- Keeps a consumer's place.
insert into ff_consumer (name, seq, updated_at_ms) values (?1, ?2, ?3)
on conflict (name) do update set seq = excluded.seq, updated_at_ms = excluded.updated_at_ms
