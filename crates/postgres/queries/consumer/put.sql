-- Keeps consumers' places.
insert into ff_consumer (name, base, base_seq, upto, upto_seq, after_seq, updated_at_ms)
select
    i.name, i.base::pg_snapshot, i.base_seq, i.upto::pg_snapshot, i.upto_seq, i.after_seq,
    i.updated_at_ms
from unnest(
    $1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[]
) as i (name, base, base_seq, upto, upto_seq, after_seq, updated_at_ms)
on conflict (name) do update set
    base = excluded.base, base_seq = excluded.base_seq, upto = excluded.upto,
    upto_seq = excluded.upto_seq, after_seq = excluded.after_seq,
    updated_at_ms = excluded.updated_at_ms
