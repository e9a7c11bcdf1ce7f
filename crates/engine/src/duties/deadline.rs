//! Deadline: an execution that took too long as a whole expires.

use std::time::Duration;

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::DutyPlan;

pub const PLAN: DutyPlan = DutyPlan {
    name: "deadline",
    duty: Some(Duty::Deadline),
    interval: Duration::from_secs(1),
    batch: 500,
    did: |reply| matches!(reply, Reply::ExpireExecution(true)),
};
