//! Key expiry: an idempotency key is forgotten when its window has passed.
//!
//! Sent twice, or too early: nothing to do.

use super::{Again, COMMAND_BYTES, Decide, Repeat};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::fold::{Change, Cx, Effects, Key, WorkingSet};
use crate::limits::Config;
use crate::text::{IdempotencyKey, Namespace};

/// Forget an idempotency key if its window has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetKey {
    /// Where.
    pub namespace: Namespace,
    /// Which.
    pub key: IdempotencyKey,
}

impl Decide for ForgetKey {
    /// Whether it is gone now.
    type Reply = bool;
    const NAME: &'static str = "forget_key";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the time: it looks again whether the key is due",
        late: "does nothing unless the key is due",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        vec![Key::Idempotency(self.namespace.clone(), self.key.clone())]
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<bool>, Rejection> {
        let key = (self.namespace.clone(), self.key.clone());
        let row = have.keys.get(&key).and_then(Option::as_ref);
        if row.is_none_or(|row| row.expires_at > cx.now) {
            return Ok(Change::none(false));
        }
        let effects = Effects { key: Some((key, None)), ..Effects::default() };
        Ok(Change { reply: true, effects })
    }

    fn again(_: &bool) -> Again<bool> {
        Again::Reply(false)
    }
}
