//! Fail: the holder ends its attempt with a failure.
//!
//! Another attempt follows if the class and category of the failure allow it and a retry is
//! left. Sent twice with the fence that ended the attempt: the same answer.

use super::{Failed, OnExecution, Parting, Repeat, check_reason, fail_attempt, holder};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Execution, Failure, Fence, LeaseEnd, State};
use crate::fold::{Change, Cx};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::policy::FailureClass;
use crate::text::Category;

/// End an attempt with a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    /// Of which execution.
    pub id: ExecutionId,
    /// Proof of holding it.
    pub fence: Fence,
    /// Why, in words.
    pub reason: String,
    /// In the worker's vocabulary; retry policies select by it.
    pub category: Category,
    /// Whether trying again can help.
    pub class: FailureClass,
}

impl OnExecution for Fail {
    type Reply = Failed;
    const NAME: &'static str = "fail_execution";
    const TRAFFIC: Traffic = Traffic::Finish;
    const REPEAT: Repeat = Repeat {
        by: "the fence that ended the attempt",
        late: "the same answer until the execution is claimed again, then `stale_lease`",
    };

    fn id(&self) -> ExecutionId {
        self.id
    }

    fn check(&self, _: &Config) -> Result<(), Rejection> {
        check_reason("failure_reason", &self.reason)
    }

    fn on(&self, x: &Execution, cx: &mut Cx<'_>) -> Result<Change<Failed>, Rejection> {
        if x.ended_by(self.fence, LeaseEnd::Failed) {
            return Ok(Change::none(match &x.state {
                State::Runnable(runnable) => Failed::RetryScheduled {
                    delay_until: runnable.wait.map_or(x.updated_at, |wait| wait.until),
                    next_attempt_index: x.counts.attempts,
                },
                State::Active(_) | State::Suspended(_) | State::Terminal(_) => {
                    Failed::TerminalFailed
                }
            }));
        }
        let active = holder(x, self.fence, cx.at(x))?.clone();
        let failure = Failure { reason: self.reason.clone(), category: self.category.clone() };
        Ok(fail_attempt(x, &active, (failure, self.class), Parting::own(LeaseEnd::Failed), cx))
    }
}
