-- Ends an old key before its time.
update ff_signing_key set expires_at_ms = ?2 where kid = ?1
