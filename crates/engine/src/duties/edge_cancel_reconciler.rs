//! Sibling cancellation, tidied up: rows that are left over are taken away.

use std::time::Duration;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::sibling_reconcile::SiblingsReconciled;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "edge_cancel_reconciler",
    duty: Some(Duty::EdgeCancelReconciler),
    interval: Duration::from_secs(10),
    batch: 50,
    tally: |reply| match reply {
        Reply::ReconcileSiblings(
            SiblingsReconciled::SremmedStale | SiblingsReconciled::CompletedDrain,
        ) => Tally::Processed,
        _ => Tally::Skipped, // not ours: answers of other commands never come here
    },
    ..DutyPlan::USUAL
};
