//! Waitpoint expiry: nobody suspended on a waitpoint in time, so nothing more arrives there.

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "waitpoint_expiry",
    duty: Some(Duty::WaitpointExpiry),
    tally: |reply| Tally::of(matches!(reply, Reply::ExpireWaitpoint(true))),
    ..DutyPlan::USUAL
};
