//! Lease expiry: work whose worker fell silent goes back to its queue.

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::lease_expiry::LeaseChecked;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    duty: Some(Duty::LeaseExpiry),
    tally: |reply| {
        if matches!(reply, Reply::ExpireLease(LeaseChecked::Renewed)) {
            Tally::Refiled
        } else if matches!(reply, Reply::ExpireLease(LeaseChecked::Gone)) {
            Tally::Skipped
        } else {
            Tally::Processed
        }
    },
    ..DutyPlan::USUAL
};
