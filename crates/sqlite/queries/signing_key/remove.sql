-- Forgets a key.
delete from ff_signing_key where kid = ?1
