//! Steps: what an execution has done so far, kept so that it is not done again.
//!
//! The journal of an execution is a numbered list that only grows. Whoever runs the execution next
//! reads it once and goes on after its end. A replay of an execution that succeeded begins a new
//! one; a replay of one that did not goes on with it.

use bytes::Bytes;

use crate::fold::WorkingSet;
use crate::ids::ExecutionId;
use crate::state::words;
use crate::text::{Encoding, StepName};
use crate::time::Millis;

words! {
    /// What a step is.
    StepKind {
        Run = "run", Sleep = "sleep", Now = "now", Random = "random", Wait = "wait",
        Waitpoint = "waitpoint",
    }
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place in the journal, from zero.
    pub number: u32,
    /// What it is.
    pub kind: StepKind,
    /// What its author calls it.
    pub name: StepName,
    /// How long it took, by the worker's clock.
    pub ran_ms: u64,
    /// How its result is encoded.
    pub encoding: Option<Encoding>,
    /// Its result.
    pub bytes: Bytes,
}

impl Step {
    /// Whether `other` is the same step with the same result. How long it took does not matter.
    pub fn is_again(&self, other: &Self) -> bool {
        Self { ran_ms: self.ran_ms, ..other.clone() } == *self
    }
}

/// A step as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// Of which execution.
    pub execution: ExecutionId,
    /// The step.
    pub step: Step,
    /// The attempt that took it.
    pub attempt_index: u32,
    /// When it was recorded.
    pub at: Millis,
}

impl WorkingSet {
    /// Whether an attempt recorded a step, earlier in the batch included.
    pub(crate) fn has_stepped(&self, id: ExecutionId, attempt: u32) -> bool {
        let mut own =
            self.steps.range((id, 0)..=(id, u32::MAX)).filter_map(|(_, row)| row.as_ref());
        self.stepped.get(&(id, attempt)) == Some(&true)
            || own.any(|record| record.attempt_index == attempt)
    }
}
