//! Completion dispatch: flows learn which of their members have ended.
//!
//! The process that ends a member is woken at once; others find what it left behind.

use ff_core::Interest;
use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::dispatch::Dispatched;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "completion_dispatch",
    duty: Some(Duty::CompletionDispatch),
    woken: Some(Interest::Flows),
    batch: 200,
    tally: |reply| Tally::of(matches!(reply, Reply::DispatchCompletion(Dispatched::Advanced(_)))),
    ..DutyPlan::USUAL
};
