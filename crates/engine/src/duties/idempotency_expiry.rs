//! Idempotency expiry: keys are forgotten when their window has passed.

use std::time::Duration;

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "idempotency_expiry",
    duty: Some(Duty::IdempotencyExpiry),
    interval: Duration::from_mins(1),
    tally: |reply| Tally::of(matches!(reply, Reply::ForgetKey(true))),
    ..DutyPlan::USUAL
};
