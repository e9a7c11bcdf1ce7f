//! Deadline: an execution that took too long as a whole expires.

use std::time::Duration;

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "deadline",
    duty: Some(Duty::Deadline),
    interval: Duration::ZERO,
    woken: None,
    batch: 500,
    tally: |reply| Tally::of(matches!(reply, Reply::ExpireExecution(true))),
};
