//! Cancel backlog: members that a large cancelled flow still owes are ended, piece by piece.

use ff_core::Interest;
use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "cancel_backlog",
    duty: Some(Duty::CancelBacklog),
    woken: Some(Interest::Cancels),
    // Each ends a thousand members: the fewer in one transaction, the shorter it holds its rows.
    batch: 1,
    tally: |reply| Tally::of(matches!(reply, Reply::CancelOwed(_))),
    ..DutyPlan::USUAL
};
