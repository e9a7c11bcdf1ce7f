//! Unhold: an operator lets a held execution be claimed again.
//!
//! A delay that has not passed still applies. Sent twice: nothing more changes. Sent again after it was
//! held again, it stays held.

use super::{OnExecution, Repeat, changed};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{Execution, State};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;

/// Let go of a held execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhold {
    /// Which.
    pub id: ExecutionId,
    /// Only at this version; at whichever it has when it does not say.
    pub version: Option<u64>,
}

impl OnExecution for Unhold {
    type Reply = ();
    const NAME: &'static str = "unhold_execution";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "`version`: the version that was changed",
        late: "the same answer while it is not held; `version_conflict` once it was held again",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let at = cx.at(x);
        let mut freed = x.changed(at);
        let moved = self.version.filter(|seen| *seen != x.version);
        match &mut freed.state {
            State::Runnable(runnable) if runnable.hold.is_none() => Ok(Change::none(())),
            State::Runnable(runnable) => {
                if let Some(seen) = moved {
                    return Err(changed(x.id, seen, x.version));
                }
                runnable.hold = None;
                let events = vec![Event::new(x, at, EventKind::Unheld)];
                let effects = Effects { execution: Some(freed), events, ..Effects::default() };
                Ok(Change { reply: (), effects })
            }
            // It was let go, and has moved on.
            State::Active(_) | State::Suspended(_) | State::Terminal(_) if moved.is_some() => {
                Ok(Change::none(()))
            }
            State::Active(_) | State::Suspended(_) | State::Terminal(_) => {
                let said = format!("{} is {}, not waiting", x.id, x.state.phase());
                Err(Rejection::new(Code::NotRunnable, said).standing(x.standing()))
            }
        }
    }

    fn pinned_to(&self, x: &Execution) -> Option<Self> {
        self.version.is_none().then(|| Self { version: Some(x.version), ..self.clone() })
    }
}
