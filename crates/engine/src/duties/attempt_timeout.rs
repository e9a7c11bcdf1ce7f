//! Attempt timeout: an attempt that took too long fails, and may be retried.

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "attempt_timeout",
    duty: Some(Duty::AttemptTimeout),
    tally: |reply| Tally::of(matches!(reply, Reply::TimeOutAttempt(Some(_)))),
    ..DutyPlan::USUAL
};
