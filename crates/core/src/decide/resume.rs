//! Resume: an operator lets a suspended execution go on, whatever it waits for.
//!
//! Sent twice: it is not suspended any more, which the second answer says.

use uuid::Uuid;

use super::mailbox::{self, closed, open, resume};
use super::{Again, COMMAND_BYTES, Decide, Repeat, check_reason};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::fold::{Change, Cx, Effects, Key, WaitEffects, WorkingSet};
use crate::ids::ExecutionId;
use crate::limits::{Config, DURATION_MS_MAX};
use crate::state::{PublicState, public_state};
use crate::suspension::{CloseReason, Suspension, SuspensionEnd};

/// Let a suspended execution go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Which.
    pub id: ExecutionId,
    /// From which suspension; from whichever it is in when it does not say. Who may send this again says
    /// so: the next one may wait for somebody else.
    pub suspension: Option<Uuid>,
    /// Why.
    pub reason: String,
    /// How long after this it may be claimed.
    pub resume_delay_ms: u64,
}

impl Decide for Resume {
    /// Where it stands now.
    type Reply = PublicState;
    const NAME: &'static str = "resume_execution";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the id of the suspension",
        late: "`execution_not_suspended`; another suspension is left alone",
    };

    fn validate(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("reason", &self.reason)?;
        if self.resume_delay_ms <= DURATION_MS_MAX {
            return Ok(());
        }
        let why = format!("is out of range; use 0 to {DURATION_MS_MAX} ms");
        let ms = self.resume_delay_ms;
        Err(Rejection::invalid(Code::InvalidInput, "resume_delay_ms", ms, why))
    }

    fn bytes(&self) -> usize {
        COMMAND_BYTES
    }

    fn keys(&self, _: &WorkingSet) -> Vec<Key> {
        mailbox::keys(self.id)
    }

    fn decide(&self, have: &WorkingSet, cx: &mut Cx<'_>) -> Result<Change<PublicState>, Rejection> {
        let x = have.execution(self.id)?;
        let at = cx.at(x);
        let (suspended, suspension) = open(x, have)?;
        if self.suspension.is_some_and(|of| of != suspension.id) {
            let said = format!("{} waits again, since suspension {}", x.id, suspension.id);
            return Err(Rejection::new(Code::ExecutionNotSuspended, said).standing(x.standing()));
        }
        let resumed = resume(x, suspended, self.resume_delay_ms, at);
        let reply = public_state(&resumed, at);
        let how = CloseReason::Resumed;
        let end = SuspensionEnd { at, how, by: Vec::new() };
        let waits = WaitEffects {
            suspension: Some(Suspension { end: Some(end), ..suspension.clone() }),
            waitpoints: closed(have, suspension, at, how),
            ..WaitEffects::default()
        };
        let kind = EventKind::Resumed { reason: self.reason.clone() };
        let effects = Effects {
            execution: Some(resumed),
            events: vec![Event::new(x, at, kind)],
            waits: Some(Box::new(waits)),
            ..Effects::default()
        };
        Ok(Change { reply, effects })
    }

    fn pinned(&self, have: &WorkingSet) -> Option<Self> {
        let x = have.execution(self.id).ok()?;
        let open = have.waits.suspension(self.id).filter(|own| own.is_open(x));
        // Where none is open, one that begins meanwhile is not meant either.
        let suspension = Some(open.map_or(Uuid::nil(), |own| own.id));
        self.suspension.is_none().then(|| Self { suspension, ..self.clone() })
    }

    fn again(_: &PublicState) -> Again<PublicState> {
        Again::Refused(Code::ExecutionNotSuspended)
    }
}
