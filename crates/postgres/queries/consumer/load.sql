-- Where consumers stand.
select name, base::text, base_seq, upto::text, upto_seq, after_seq, updated_at_ms
from ff_consumer where name = any($1::text[])
