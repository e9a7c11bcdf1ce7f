//! Create a waitpoint while the execution runs, so that its token can be handed out before anybody waits.
//!
//! Signals that arrive there are kept until the execution suspends on it, or it expires. Sent twice with
//! the same id: the same answer, until it is closed.

use uuid::Uuid;

use super::mailbox::{self, Signer, room, token, touched};
use super::{Decide, Repeat, holder, steps};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::execution::Fence;
use crate::fold::{Change, Cx, Effects, Key, LeaseRow, WaitEffects, WaitKey, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{Config, DURATION_MS_MAX};
use crate::step::Step;
use crate::suspension::{WaitpointState, WaitpointWord};
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
    /// Steps to record with it, so that whoever runs next finds it instead of making another.
    pub steps: Vec<Step>,
}

impl Decide for CreateWaitpoint {
    /// Its token; nothing when it was made before by a key that is gone.
    type Reply = Option<Token>;
    const NAME: &'static str = "create_waitpoint";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "the id of the waitpoint",
        late: "the same answer until it is closed, which is then said",
    };

    fn validate(&self, config: &Config) -> Result<(), Rejection> {
        let ms = self.expires_in_ms;
        if !(1..=DURATION_MS_MAX).contains(&ms) {
            let why = format!("is out of range; use 1 to {DURATION_MS_MAX} ms");
            return Err(Rejection::invalid(Code::InvalidInput, "expires_in_ms", ms, why));
        }
        steps::check(&self.steps, 0, config)
    }

    fn bytes(&self) -> usize {
        steps::bytes(&self.steps)
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        let mut keys = steps::keys(self.id, &self.steps);
        keys.extend(mailbox::keys(self.id));
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
        let steps = steps::new_records(x.id, &self.steps, (index, at), have)?;
        if let Some(known) = have.waits.waitpoint(x.id, self.waitpoint) {
            if known.state.word() == WaitpointWord::Closed {
                let said = format!("waitpoint {} of {} is closed", known.id, x.id);
                return Err(Rejection::new(Code::WaitpointClosed, said));
            }
            if known.key == self.key {
                let reply = token(known, have.waits.keyring.as_ref(), at);
                let held = if steps.is_empty() { None } else { LeaseRow::of(x) };
                let effects = Effects { steps, held, ..Effects::default() };
                return Ok(Change { reply, effects });
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
        let effects = Effects { steps, ..touched(x, waits, at) };
        Ok(Change { reply: Some(token), effects })
    }
}
