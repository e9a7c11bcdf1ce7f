//! Retention: finished executions are removed when their time is up.

use std::time::Duration;

use ff_core::backend::Duty;
use ff_core::command::Reply;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    name: "retention",
    duty: Some(Duty::Retention),
    interval: Duration::from_mins(1),
    batch: 500,
    tally: |reply| {
        if matches!(reply, Reply::Trim(true)) { Tally::Processed } else { Tally::Skipped }
    },
};
