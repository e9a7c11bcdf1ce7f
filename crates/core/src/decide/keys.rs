//! The keys that sign tokens: the first one, and the next.
//!
//! Sent twice: the first key is there already, the next one is the current one already; both say so.

use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::fold::{Change, Cx, Effects, Key, WaitEffects, WaitKey, WorkingSet};
use crate::keyring::{KeyChange, Keyring, Rotation, Seeding};
use crate::limits::Config;

/// A secret on its way to the store; it shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHex(pub String);

impl std::fmt::Debug for SecretHex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretHex(…)")
    }
}

/// Give a store its first key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedKey {
    /// Its name.
    pub kid: String,
    /// The secret, in hexadecimal.
    pub secret_hex: SecretHex,
}

/// Sign with another key from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotateKey {
    /// Its name.
    pub kid: String,
    /// The secret, in hexadecimal.
    pub secret_hex: SecretHex,
    /// How long tokens of the key before it are still accepted.
    pub grace_ms: u64,
    /// Keys before that one whose tokens are no longer accepted, whatever grace they had.
    pub withdraw: Vec<String>,
}

/// The answer to a first key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seeded {
    /// It signs now.
    Seeded,
    /// It was there.
    AlreadySeeded {
        /// Whether with the same secret.
        same_secret: bool,
    },
}

/// The answer to another key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// It signs now.
    Rotated {
        /// The key before it.
        previous_kid: Option<String>,
        /// Keys that are gone for good.
        gc_count: usize,
    },
    /// It signed already.
    Noop,
}

fn change<R>(reply: R, change: KeyChange) -> Change<R> {
    let waits = WaitEffects { keys: Some(change), ..WaitEffects::default() };
    Change { reply, effects: Effects { waits: Some(Box::new(waits)), ..Effects::default() } }
}

impl Decide for SeedKey {
    type Reply = Seeded;
    const NAME: &'static str = "seed_signing_key";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat =
        Repeat { by: "the name of the key", late: "the store has a first key already" };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Wait(WaitKey::Keyring)]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Seeded>, Rejection> {
        let keys = have.waits.keyring.clone().unwrap_or_default();
        Ok(match keys.seed(&self.kid, &self.secret_hex.0, cx.now)? {
            Seeding::Seeded { change: seeded } => change(Seeded::Seeded, seeded),
            Seeding::AlreadySeeded { same_secret, .. } => {
                Change::none(Seeded::AlreadySeeded { same_secret })
            }
        })
    }

    fn again(reply: &Seeded) -> Again<Seeded> {
        match reply {
            Seeded::Seeded => Again::Reply(Seeded::AlreadySeeded { same_secret: true }),
            Seeded::AlreadySeeded { .. } => Again::Same,
        }
    }
}

impl Decide for RotateKey {
    type Reply = Rotated;
    const NAME: &'static str = "rotate_signing_key";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the name of the key; a former one is known until a rotation after its grace",
        late: "it signs already, or `rotation_conflict` once another does",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Wait(WaitKey::Keyring)]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<Rotated>, Rejection> {
        if self.withdraw.contains(&self.kid) {
            let why = "is the key that is to sign";
            return Err(Rejection::invalid(Code::InvalidInput, "withdraw", &self.kid, why));
        }
        let keys: Keyring = have.waits.keyring.clone().unwrap_or_default();
        let rotation = keys.rotate(&self.kid, &self.secret_hex.0, self.grace_ms, cx.now)?;
        Ok(match rotation {
            Rotation::Noop { .. } => {
                keys.check_withdrawn(&self.withdraw)?;
                Change::none(Rotated::Noop)
            }
            Rotation::Rotated { previous_kid, change: mut rotated, .. } => {
                let previous_kid = previous_kid.map(|kid| kid.to_string());
                rotated.withdraw = keys.withdraw(&self.withdraw, &rotated.install)?;
                rotated.forget.retain(|kid| !rotated.withdraw.contains(kid));
                let gc_count = rotated.forget.len();
                change(Rotated::Rotated { previous_kid, gc_count }, rotated)
            }
        })
    }

    fn again(_: &Rotated) -> Again<Rotated> {
        Again::Reply(Rotated::Noop)
    }
}
