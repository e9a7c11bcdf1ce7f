//! Cancel: by the holder of the lease, or by an operator from any state that is not terminal.
//!
//! Sent twice: cancelled again, and the first reason stays. An operator who comes after it ended
//! otherwise is told how. Sent again after a replay, it does not end the replayed run.

use super::{OnExecution, Parting, Repeat, check_reason, end, holder, not_active};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{CancelledBy, Ending, Execution, Fence, LeaseEnd, State};
use crate::fold::{Change, Cx};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::state::TerminalOutcome;

/// End an execution without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    /// Which.
    pub id: ExecutionId,
    /// Why.
    pub reason: String,
    /// The holder's proof; an operator needs none.
    pub fence: Option<Fence>,
    /// An operator's: only in this life, after so many replays; in whichever it is in when it does not say.
    pub replays: Option<u32>,
}

impl OnExecution for Cancel {
    type Reply = ();
    const NAME: &'static str = "cancel_execution";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the fence, or `replays`: how often it had been replayed",
        late: "`version_conflict` once it was replayed; the replayed run is not cancelled",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("reason", &self.reason)
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<()>, Rejection> {
        if let State::Terminal(terminal) = &x.state {
            let mine = self.fence.is_none_or(|fence| x.ended_by(fence, LeaseEnd::Cancelled));
            if terminal.ending.outcome() == TerminalOutcome::Cancelled && mine {
                return Ok(Change::none(()));
            }
            return Err(not_active(x));
        }
        if let Some(seen) = self.replays.filter(|seen| *seen != x.counts.replays) {
            return Err(super::replayed(x, seen));
        }
        let (by, how) = match self.fence {
            Some(fence) => {
                holder(x, fence, cx.at(x))?;
                (CancelledBy::Worker, LeaseEnd::Cancelled)
            }
            None => (CancelledBy::Operator, LeaseEnd::Revoked),
        };
        let parting = Parting { how, reason: &self.reason };
        let ending = Ending::Cancelled { by, reason: self.reason.clone() };
        Ok(Change { reply: (), effects: end(x, ending, parting, cx) })
    }

    fn pinned_to(&self, x: &Execution) -> Option<Self> {
        let says = self.fence.is_some() || self.replays.is_some();
        (!says).then(|| Self { replays: Some(x.counts.replays), ..self.clone() })
    }
}
