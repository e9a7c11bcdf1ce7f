//! Attempt timeout: an attempt used up its running time, which is a failure like any other.
//!
//! The retry policy decides what follows. Sent twice, or too early: nothing to do.

use super::{Failed, OnExecution, Parting, fail_attempt};
use crate::command::Traffic;
use crate::error::Rejection;
use crate::execution::{Execution, Failure, LeaseEnd, State};
use crate::fold::{Change, Cx};
use crate::ids::ExecutionId;
use crate::limits::Config;
use crate::policy::FailureClass;
use crate::text::Category;

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
                active.clone()
            }
            // Not due, or its worker had fallen silent before, which is what counts.
            State::Active(_) | State::Runnable(_) | State::Terminal(_) => {
                return Ok(Change::none(None));
            }
        };
        let reason = "attempt_timeout";
        let failure = Failure {
            reason: reason.to_owned(),
            category: Category::new("timeout").expect("a valid category"),
        };
        let failure = (failure, FailureClass::Timeout);
        let parting = Parting { how: LeaseEnd::Revoked, reason };
        Ok(fail_attempt(x, &active, failure, parting, cx).map(Some))
    }
}
