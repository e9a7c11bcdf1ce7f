//! Create a waitpoint while the execution runs, so that its token can be handed out before anybody waits.
//!
//! Signals that arrive there are kept until the execution suspends on it, or it expires. Sent twice with
//! the same id: the same answer.

use uuid::Uuid;

use super::mailbox::{self, Signer, room, token, touched};
use super::{COMMAND_BYTES, Decide, holder};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::Fence;
use crate::fold::{Change, Cx, Key, WaitEffects, WaitKey, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{Config, DURATION_MS_MAX};
use crate::suspension::WaitpointState;
use crate::text::WaitpointKey;
use crate::token::Token;

/// Make a waitpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateWaitpoint {
    /// Of which execution.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// Its id.
    pub waitpoint: Uuid,
    /// What conditions will call it.
    pub key: WaitpointKey,
    /// Closed after this, unless somebody suspends on it.
    pub expires_in_ms: u64,
}

impl Decide for CreateWaitpoint {
    /// Its token; nothing when it was made before by a key that is gone.
    type Reply = Option<Token>;
    const NAME: &'static str = "create_waitpoint";
    const TRAFFIC: Traffic = Traffic::Finish;

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        if (1..=DURATION_MS_MAX).contains(&self.expires_in_ms) {
            return Ok(());
        }
        let why = format!("is out of range; use 1 to {DURATION_MS_MAX} ms");
        let ms = self.expires_in_ms;
        Err(Rejection::invalid(Code::InvalidInput, "expires_in_ms", ms, why))
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        let mut keys = mailbox::keys(self.id);
        keys.extend([
            Key::Wait(WaitKey::Waitpoint(self.id, self.waitpoint)),
            Key::Wait(WaitKey::Keyring),
        ]);
        keys
    }

    fn decide(
        &self,
        have: &WorkingSet,
        cx: &mut Cx<'_>,
    ) -> Result<Change<Option<Token>>, Rejection> {
        let x = have.execution(self.id)?;
        let at = cx.at(x);
        let active = holder(x, self.fence, at)?;
        let index = active.attempt.index;
        if let Some(known) = have.waits.waitpoint(x.id, self.waitpoint) {
            if known.key == self.key {
                return Ok(Change::none(token(known, have.waits.keyring.as_ref(), at)));
            }
            let said = format!("{} has a waitpoint {} at {}", x.id, known.id, known.key);
            return Err(Rejection::new(Code::WaitpointAlreadyExists, said));
        }
        room(have, x.id, 1)?;
        let signer = Signer::new(have.waits.keyring.as_ref(), cx);
        let state = WaitpointState::Pending { expires_at: at.plus(self.expires_in_ms) };
        let made = (self.waitpoint, &self.key);
        let (row, token) = signer.waitpoint((x, index), made, state, at);
        let waits =
            WaitEffects { waitpoints: vec![row], keys: signer.change, ..WaitEffects::default() };
        let effects = touched(x, waits, at);
        Ok(Change { reply: Some(token), effects })
    }
}
