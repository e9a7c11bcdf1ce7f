-- Installs the current key.
insert into ff_signing_key (kid, secret, created_at_ms) values (?1, ?2, ?3)
