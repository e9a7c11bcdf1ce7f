//! Hold: an operator keeps a waiting execution from being claimed.
//!
//! Sent twice: held, and the first reason stays. Sent again after it was let go, it is not held again.

use super::{OnExecution, Repeat, changed, check_reason};
use crate::command::Traffic;
use crate::error::{Code, Rejection};
use crate::event::{Event, EventKind};
use crate::execution::{self, Execution, State};
use crate::fold::{Change, Cx, Effects};
use crate::ids::ExecutionId;
use crate::limits::Config;

/// Keep an execution from being claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Which.
    pub id: ExecutionId,
    /// Why.
    pub reason: String,
    /// Only at this version; at whichever it has when it does not say.
    pub version: Option<u64>,
}

impl OnExecution for Hold {
    type Reply = ();
    const NAME: &'static str = "hold_execution";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "`version`: the version that was changed",
        late: "the same answer while it is held; `version_conflict` once it was let go",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("reason", &self.reason)
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        let at = cx.at(x);
        let mut held = x.changed(at);
        let moved = self.version.filter(|seen| *seen != x.version);
        match &mut held.state {
            State::Runnable(runnable) if runnable.hold.is_some() => Ok(Change::none(())),
            State::Runnable(runnable) => {
                if let Some(seen) = moved {
                    return Err(changed(x.id, seen, x.version));
                }
                let reason = self.reason.clone();
                runnable.hold = Some(execution::Hold { reason: reason.clone(), at });
                let events = vec![Event::new(x, at, EventKind::Held { reason })];
                let effects = Effects { execution: Some(held), events, ..Effects::default() };
                Ok(Change { reply: (), effects })
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
