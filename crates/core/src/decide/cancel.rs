//! Cancel: by the holder of the lease, or by an operator from any state that is not terminal.
//!
//! Sent twice: cancelled again, and the first reason stays. An operator who comes after it ended
//! otherwise is told how.

use super::{OnExecution, Parting, check_reason, end, holder, not_active};
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
}

impl OnExecution for Cancel {
    type Reply = ();
    const NAME: &'static str = "cancel_execution";
    const TRAFFIC: Traffic = Traffic::Admin;

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
}
