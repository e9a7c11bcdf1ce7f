//! Retention: finished executions and flows are removed when their time is up.

use std::time::Duration;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::trim_flow::FlowTrimmed;

use super::{DutyPlan, Tally};

pub const PLAN: DutyPlan = DutyPlan {
    duty: Some(Duty::Retention),
    interval: Duration::from_mins(1),
    tally: |reply| {
        let flow = |trimmed: &FlowTrimmed| trimmed.flow || trimmed.members > 0;
        match reply {
            Reply::Trim(true) => Tally::Processed,
            Reply::TrimFlow(trimmed) if flow(trimmed) => Tally::Processed,
            _ => Tally::Skipped, // not ours: answers of other commands never come here
        }
    },
    ..DutyPlan::USUAL
};
