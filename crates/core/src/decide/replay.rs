//! Replay: an operator has a finished execution run again, as a new attempt.
//!
//! Retries and reclaims start from zero; a deadline that was relative starts again and an
//! absolute one is dropped once passed; the result is gone until the new attempt succeeds;
//! history stays. One that had succeeded takes all its steps again; any other goes on after the
//! last one that it recorded. Sent twice before the next claim: the same answer.

use super::{OnExecution, check_reason};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{Counts, Ending, Execution, Next, Runnable, State};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;

/// Run a finished execution again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Which.
    pub id: ExecutionId,
    /// Why.
    pub reason: String,
}

impl OnExecution for Replay {
    type Reply = ();
    const NAME: &'static str = "replay_execution";
    const TRAFFIC: Traffic = Traffic::Admin;

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("reason", &self.reason)
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let terminal = match &x.state {
            State::Terminal(terminal) => terminal,
            State::Runnable(Runnable { next: Next::Replay, last_lease: None, .. }) => {
                return Ok(Change::none(()));
            }
            State::Runnable(_) | State::Active(_) => {
                let said = format!("{} is {}, not terminal", x.id, x.state.phase());
                let refused = Rejection::new(Code::ExecutionNotTerminal, said);
                return Err(refused.standing(x.standing()));
            }
        };
        let max = x.spec.policy.max_replays();
        if x.counts.replays >= max {
            let said = format!("{} was replayed {} times, which is all", x.id, x.counts.replays);
            return Err(Rejection::new(Code::MaxReplaysExhausted, said));
        }
        let at = cx.at(x);
        let mut replayed = x.changed(at);
        replayed.counts =
            Counts { replays: x.counts.replays + 1, retries: 0, reclaims: 0, ..x.counts };
        replayed.progress = None;
        replayed.deadline_at = match x.spec.policy.execution_deadline_ms() {
            Some(ms) => Some(at.plus(ms)),
            None => x.deadline_at.filter(|deadline| *deadline > at),
        };
        replayed.state = State::Runnable(Runnable {
            next: Next::Replay,
            wait: None,
            hold: None,
            last_lease: None,
        });
        let reason = self.reason.clone();
        let event = EventKind::Replayed { outcome: terminal.ending.outcome(), reason };
        let effects = Effects {
            execution: Some(replayed),
            attempt: terminal.last_attempt(x.id),
            cleared: matches!(terminal.ending, Ending::Success { .. }).then_some(x.id),
            events: vec![Event::new(x, at, event)],
            ..Effects::default()
        };
        Ok(Change { reply: (), effects })
    }
}
