-- Gives the current key its end, if it is this one.
update ff_signing_key set expires_at_ms = ?2 where kid = ?1 and expires_at_ms is null
