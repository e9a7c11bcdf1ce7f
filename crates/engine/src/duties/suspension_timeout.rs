//! Suspension timeout: nobody came in time, and what was to happen then happens.

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "suspension_timeout",
    duty: Some(Duty::SuspensionTimeout),
    tally: |reply| Tally::of(matches!(reply, Reply::TimeOutSuspension(Some(_)))),
    ..DutyPlan::USUAL
};
