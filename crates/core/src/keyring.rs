//! The keys that sign tokens and links: one signs, those it replaced still verify for a while.
//!
//! Nothing here changes a keyring: [`Keyring::seed`] and [`Keyring::rotate`] say what to change, and
//! [`Keyring::apply`] does it to the one in memory. What must stay true:
//!
//! * the current key has no end; every other one has, set when it was replaced. It is moved only by a
//!   rotation that withdraws the key, so that whoever remembers which key signs learns of it;
//! * a key that was withdrawn is never forgotten, and so neither its name nor its secret comes back;
//! * a key verifies up to its end, the last millisecond included, and is forgotten only after it;
//! * a kid means one secret for as long as it is stored;
//! * only a genuine token is told that its key has ended; all others hear the same, after the same
//!   work.

use serde::Serialize;
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::error::{Code, Rejection};
use crate::ids::ExecutionId;
use crate::limits::{GRACE_MS_MAX, SECRET_BYTES_MAX, SECRET_BYTES_MIN, SEED_SECRET_BYTES};
use crate::text::{Kid, WaitpointKey};
use crate::time::Millis;
use crate::token::{Claims, Mac, Presented, Refused, Secret};

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// Its name.
    pub kid: Kid,
    /// What only we know.
    pub secret: Secret,
    /// When it was installed.
    pub created_at: Millis,
}

/// A key that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldKey {
    /// The key.
    pub key: SigningKey,
    /// The last moment at which it verifies.
    pub expires_at: Millis,
}

impl OldKey {
    /// Whether that is over.
    pub fn expired(&self, now: Millis) -> bool {
        self.expires_at < now
    }

    /// Whether somebody ended it before its time: it has no moment at which it verifies.
    fn withdrawn(&self) -> bool {
        self.expires_at == Millis::ZERO
    }
}

/// All keys of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    /// The one that signs; none in a store that was never given any.
    pub current: Option<SigningKey>,
    /// Those it replaced.
    pub old: Vec<OldKey>,
}

/// What to change in a stored keyring, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    /// Old keys to remove.
    pub forget: Vec<Kid>,
    /// The current key becomes an old one, with its end.
    pub retire: Option<(Kid, Millis)>,
    /// Old keys that end now, for good.
    pub withdraw: Vec<Kid>,
    /// The new current key.
    pub install: SigningKey,
}

/// What came of giving a store its first key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeding {
    /// It had none.
    Seeded {
        /// What to change.
        change: KeyChange,
    },
    /// It has this key.
    AlreadySeeded {
        /// Its name.
        kid: Kid,
        /// Whether with the same secret.
        same_secret: bool,
    },
}

/// What came of replacing the current key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// It is the current key already.
    Noop {
        /// Its name.
        kid: Kid,
    },
    /// It replaces the current key.
    Rotated {
        /// The one that it replaces.
        previous_kid: Option<Kid>,
        /// Its name.
        new_kid: Kid,
        /// How many old keys are forgotten.
        gc_count: usize,
        /// What to change.
        change: KeyChange,
    },
}

/// A key as far as anybody may see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedKey {
    /// Its name.
    pub kid: Kid,
    /// When it was installed.
    pub created_at: Millis,
    /// The last moment at which it verifies; absent for the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
}

impl Keyring {
    /// Gives a store its first key. A store that has one keeps it: keys are changed by rotation.
    pub fn seed(&self, kid: &str, secret_hex: &str, now: Millis) -> Result<Seeding, Rejection> {
        let install = signing_key(kid, secret_hex, now)?;
        let bytes = install.secret.bytes().len();
        if bytes != SEED_SECRET_BYTES {
            return Err(bad_secret(&format!("is {bytes} bytes; it must be {SEED_SECRET_BYTES}")));
        }
        if let Some(stored) = self.find(&install.kid) {
            let same_secret = stored.secret == install.secret;
            return Ok(Seeding::AlreadySeeded { kid: install.kid, same_secret });
        }
        if let Some(current) = &self.current {
            let why = format!("is not the current key {:?}; use rotate", current.kid.as_str());
            return Err(Rejection::invalid(Code::InvalidInput, "kid", kid, why));
        }
        let (forget, withdraw) = (Vec::new(), Vec::new());
        Ok(Seeding::Seeded { change: KeyChange { forget, retire: None, withdraw, install } })
    }

    /// Replaces the current key, which verifies for `grace_ms` more. Earlier ones keep the end they
    /// have. A key that was replaced does not sign again while it is stored, whether it still verifies
    /// or not: a late repeat of an old rotation must not undo the one that followed.
    pub fn rotate(
        &self,
        kid: &str,
        secret_hex: &str,
        grace_ms: u64,
        now: Millis,
    ) -> Result<Rotation, Rejection> {
        let install = signing_key(kid, secret_hex, now)?;
        if grace_ms > GRACE_MS_MAX {
            let why = format!("is more than {GRACE_MS_MAX}");
            return Err(Rejection::invalid(Code::InvalidGraceMs, "grace_ms", grace_ms, why));
        }
        let conflict = |why: &str| {
            Err(Rejection::invalid(Code::RotationConflict, "kid", install.kid.as_str(), why))
        };
        if let Some(current) = self.current.as_ref().filter(|key| key.kid == install.kid) {
            if current.secret != install.secret {
                return conflict("is the current key, with another secret");
            }
            return Ok(Rotation::Noop { kid: install.kid });
        }
        for old in &self.old {
            match (old.key.kid == install.kid, old.withdrawn()) {
                (true, true) => return conflict("was withdrawn"),
                (true, false) if old.expired(now) => return conflict("was replaced already"),
                (true, false) => return conflict("is an old key that is still accepted"),
                (false, true) if old.key.secret == install.secret => {
                    return Err(bad_secret("is that of a key that was withdrawn"));
                }
                (false, _) => {}
            }
        }
        let previous_kid = self.current.as_ref().map(|key| key.kid.clone());
        let expired = self.old.iter().filter(|old| old.expired(now) && !old.withdrawn());
        let forget: Vec<_> = expired.map(|old| old.key.kid.clone()).collect();
        let retire = previous_kid.clone().map(|kid| (kid, now.plus(grace_ms)));
        Ok(Rotation::Rotated {
            previous_kid,
            new_kid: install.kid.clone(),
            gc_count: forget.len(),
            change: KeyChange { forget, retire, withdraw: Vec::new(), install },
        })
    }

    /// The old keys that a rotation is asked to end, although they may still be accepted. `install` is the
    /// key that is to sign.
    pub fn withdraw(&self, kids: &[String], install: &SigningKey) -> Result<Vec<Kid>, Rejection> {
        let refused = |kid: &str, why: &str| {
            Err(Rejection::invalid(Code::InvalidInput, "withdraw", kid, why))
        };
        let mut withdrawn = Vec::new();
        for kid in kids {
            if self.current.as_ref().is_some_and(|key| key.kid.as_str() == kid) {
                return refused(
                    kid,
                    "is the current key, which is replaced anyway; give it no grace",
                );
            }
            let mut old = self.old.iter().map(|old| &old.key);
            match old.find(|old| old.kid.as_str() == kid) {
                Some(old) if old.secret == install.secret => {
                    return Err(bad_secret("is that of a key that is to be withdrawn"));
                }
                Some(old) if !withdrawn.contains(&old.kid) => withdrawn.push(old.kid.clone()),
                Some(_) => {}
                None => return refused(kid, "is no key that was replaced"),
            }
        }
        Ok(withdrawn)
    }

    /// Refuses to have withdrawn what was not, by a rotation that is over.
    pub fn check_withdrawn(&self, kids: &[String]) -> Result<(), Rejection> {
        let withdrawn = |kid: &str| {
            let old = self.old.iter().find(|old| old.key.kid.as_str() == kid);
            old.is_some_and(OldKey::withdrawn)
        };
        match kids.iter().find(|kid| !withdrawn(kid)) {
            None => Ok(()),
            Some(kid) => {
                let why = "is not withdrawn, and the new key signs already; give that another name";
                Err(Rejection::invalid(Code::InvalidInput, "withdraw", kid.as_str(), why))
            }
        }
    }

    /// Does what a seeding or a rotation said.
    pub fn apply(&mut self, change: KeyChange) {
        let KeyChange { forget, retire, withdraw, install } = change;
        self.old.retain(|old| !forget.contains(&old.key.kid));
        if let Some((kid, expires_at)) = retire {
            let retired = self.current.take().filter(|key| key.kid == kid);
            self.old.extend(retired.map(|key| OldKey { key, expires_at }));
        }
        for old in self.old.iter_mut().filter(|old| withdraw.contains(&old.key.kid)) {
            old.expires_at = Millis::ZERO;
        }
        self.current = Some(install);
    }

    /// The keys that verify now, the current one first.
    pub fn list(&self, now: Millis) -> Vec<ListedKey> {
        let listed = |key: &SigningKey, expires_at| ListedKey {
            kid: key.kid.clone(),
            created_at: key.created_at,
            expires_at,
        };
        let current = self.current.iter().map(|key| listed(key, None));
        let old = self.old.iter().filter(|old| !old.expired(now));
        current.chain(old.map(|old| listed(&old.key, Some(old.expires_at)))).collect()
    }

    /// Whether a token was minted for these claims by a key that is accepted now.
    pub fn verify(
        &self,
        presented: &Presented,
        claims: &Claims<'_>,
        now: Millis,
    ) -> Result<(), Refused> {
        let minted = |secret: &Secret| claims.mac(&presented.kid, secret);
        self.judge(&presented.kid, minted, &presented.mac, now)
    }

    /// Refuses a token for a waitpoint that is not there, with the answer and the work of
    /// [`Keyring::verify`] for a token that is wrong.
    pub fn refuse(&self, presented: &Presented) -> Refused {
        let key = WaitpointKey::new("no such waitpoint").expect("printable");
        let nowhere = Claims {
            execution: ExecutionId::FIRST,
            waitpoint: Uuid::nil(),
            key: &key,
            created_at: Millis::ZERO,
        };
        match self.verify(presented, &nowhere, Millis::ZERO) {
            Err(Refused::NoKeys) => Refused::NoKeys,
            // Somebody may have minted a token for nowhere.
            Ok(()) | Err(Refused::Missing | Refused::Invalid | Refused::Expired) => {
                Refused::Invalid
            }
        }
    }

    /// Compares a MAC with the one that the key `kid` gives, if there is one; if not, with the one
    /// that no key gives, so that names of keys cannot be found out by their time.
    pub(crate) fn judge(
        &self,
        kid: &Kid,
        mac: impl Fn(&Secret) -> Mac,
        presented: &Mac,
        now: Millis,
    ) -> Result<(), Refused> {
        if self.current.is_none() && self.old.is_empty() {
            return Err(Refused::NoKeys);
        }
        let nobody = Secret::new(vec![0; SEED_SECRET_BYTES]);
        let secret = self.find(kid).map(|key| &key.secret);
        let same: bool = mac(secret.unwrap_or(&nobody)).ct_eq(presented).into();
        let expired = self.old.iter().any(|old| old.key.kid == *kid && old.expired(now));
        match (secret.is_some() && same, expired) {
            (false, _) => Err(Refused::Invalid),
            (true, true) => Err(Refused::Expired),
            (true, false) => Ok(()),
        }
    }

    /// The key of this name, whether it is still accepted or not.
    fn find(&self, kid: &Kid) -> Option<&SigningKey> {
        let keys = self.current.iter().chain(self.old.iter().map(|old| &old.key));
        keys.into_iter().find(|key| key.kid == *kid)
    }
}

/// Reads a key as an operator writes it. The secret is in no answer.
fn signing_key(kid: &str, secret_hex: &str, now: Millis) -> Result<SigningKey, Rejection> {
    let kid = Kid::new(kid).map_err(|refused| Rejection { code: Code::InvalidKid, ..refused })?;
    if secret_hex.len() > 2 * SECRET_BYTES_MAX {
        return Err(bad_secret(&format!("is more than {SECRET_BYTES_MAX} bytes")));
    }
    let secret = Secret::from_hex(secret_hex)
        .ok_or_else(|| bad_secret("must be whole bytes in hexadecimal, at least one"))?;
    if secret.bytes().len() < SECRET_BYTES_MIN {
        return Err(bad_secret(&format!("is less than {SECRET_BYTES_MIN} bytes")));
    }
    Ok(SigningKey { kid, secret, created_at: now })
}

fn bad_secret(why: &str) -> Rejection {
    Rejection::invalid(Code::InvalidSecretHex, "secret_hex", "", why)
}
