//! Deadline: the execution as a whole ran out of time and expires, whatever it was doing.
//!
//! Sent twice, or too early: nothing to do.

use super::{Again, OnExecution, Parting, Repeat, end};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Ending, Execution, LeaseEnd, State};
use crate::fold::{Change, Cx};
use crate::ids::ExecutionId;
use crate::limits::Config;

/// Check whether an execution is past its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpireExecution {
    /// Which.
    pub id: ExecutionId,
}

impl OnExecution for ExpireExecution {
    /// Whether it expired.
    type Reply = bool;
    const NAME: &'static str = "expire_execution";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the time: it looks again whether the execution is due",
        late: "does nothing unless the execution is due",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<bool>, Rejection> {
        let due = x.deadline_at.is_some_and(|deadline| deadline <= cx.at(x));
        match &x.state {
            State::Runnable(_) | State::Active(_) | State::Suspended(_) if due => {
                let reason = "execution_deadline";
                let ending = Ending::Expired { reason: reason.to_owned() };
                let parting = Parting { how: LeaseEnd::Revoked, reason };
                Ok(Change { reply: true, effects: end(x, ending, parting, cx) })
            }
            // Not due (a replay moved the deadline), or it ended in time.
            State::Runnable(_) | State::Active(_) | State::Suspended(_) | State::Terminal(_) => {
                Ok(Change::none(false))
            }
        }
    }

    fn again(_: &bool) -> Again<bool> {
        Again::Reply(false)
    }
}
