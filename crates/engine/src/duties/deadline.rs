//! Deadline: an execution that took too long as a whole expires.

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "deadline",
    duty: Some(Duty::Deadline),
    tally: |reply| Tally::of(matches!(reply, Reply::ExpireExecution(true))),
    ..DutyPlan::USUAL
};
