//! Attempt timeout: an attempt used up its running time, which is a failure like any other.
//!
//! The retry policy decides what follows. A lease that ran out before is left to its own sweep,
//! which finds it too. Sent twice, or too early: nothing to do.

use super::{Again, Failed, OnExecution, Repeat, time_out};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Execution, State};
use crate::fold::{Change, Cx};
use crate::ids::ExecutionId;
use crate::limits::Config;

/// Check whether an attempt timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeOutAttempt {
    /// Of which execution.
    pub id: ExecutionId,
}

impl OnExecution for TimeOutAttempt {
    /// What the timeout led to; nothing when it was not due.
    type Reply = Option<Failed>;
    const NAME: &'static str = "time_out_attempt";
    const TRAFFIC: Traffic = Traffic::Admin;
    const REPEAT: Repeat = Repeat {
        by: "the time: it looks again whether the attempt is due",
        late: "does nothing unless an attempt is due",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        Ok(())
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<Self::Reply>, Rejection> {
        let at = cx.at(x);
        let active = match &x.state {
            State::Active(active)
                if active.timeout_at.is_some_and(|due| due <= at)
                    && (active.lease.until > at || active.timed_out_first()) =>
            {
                active
            }
            // Not due, or its worker had fallen silent before, which is what counts.
            State::Active(_) | State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => {
                return Ok(Change::none(None));
            }
        };
        Ok(time_out(x, active, cx).map(Some))
    }

    fn again(_: &Self::Reply) -> Again<Self::Reply> {
        Again::Reply(None)
    }
}
