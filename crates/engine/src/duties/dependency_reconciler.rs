//! Dependency reconciler: groups that wait for something that has ended are put right.

use std::time::Duration;

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "dependency_reconciler",
    duty: Some(Duty::DependencyReconciler),
    interval: Duration::from_secs(15),
    batch: 100,
    tally: |reply| Tally::of(matches!(reply, Reply::ReconcileGroup(1..))),
    ..DutyPlan::USUAL
};
