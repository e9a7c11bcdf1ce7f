//! Steps: the outcomes of what a handler did so far, kept so that it is not done again.
//!
//! The journal of an execution is a numbered list that only grows. A worker that runs the execution reads
//! it once and goes on after its end. A replay of an execution that succeeded begins a new *generation*:
//! its journal opens with one record that says which. A replay of any other goes on with the journal.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::fold::WorkingSet;
use crate::ids::ExecutionId;
use crate::policy::FailureClass;
use crate::state::words;
use crate::text::{Category, Encoding, OperationId, StepName};
use crate::time::Millis;

words! {
    /// What a step is.
    StepKind {
        Run = "run", Sleep = "sleep", Now = "now", Random = "random", Wait = "wait",
        Waitpoint = "waitpoint", Children = "children", Race = "race",
        Timeout = "timeout", Generation = "generation",
    }
}

words! {
    /// What became of it: `done` with its result, `failed` with a [`StepFailure`], `fired` at its time,
    /// `won` by the arm whose number is its result, `abandoned` unfinished; or `open`, as long as nothing
    /// did: then its result says what was begun.
    StepOutcome {
        Done = "done", Failed = "failed", Fired = "fired", Won = "won", Abandoned = "abandoned",
        Open = "open",
    }
}

/// What a step failed with: the result of one whose outcome is `failed`, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFailure {
    /// What was said, with its causes.
    pub message: String,
    /// In the vocabulary of the worker.
    pub category: Category,
    /// Whether trying again can help.
    pub class: FailureClass,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place in the order of recording, from zero.
    pub number: u32,
    /// Which operation of the handler it is. Nothing where its number says so: then the handler takes one
    /// operation after the other, and counts them all.
    pub operation: Option<OperationId>,
    /// What it is.
    pub kind: StepKind,
    /// What its author calls it.
    pub name: StepName,
    /// What became of it.
    pub outcome: StepOutcome,
    /// The time of the outcome, the same in every run of the handler; nothing is the time of recording.
    pub time: Option<Millis>,
    /// How long it took, by the worker's clock.
    pub ran_ms: u64,
    /// How its result is encoded.
    pub encoding: Option<Encoding>,
    /// Its result.
    pub bytes: Bytes,
}

impl Step {
    /// One that was run, with its result.
    pub fn run(number: u32, name: StepName, bytes: Bytes) -> Self {
        Self {
            number,
            operation: None,
            kind: StepKind::Run,
            name,
            outcome: StepOutcome::Done,
            time: None,
            ran_ms: 0,
            encoding: None,
            bytes,
        }
    }

    /// The record that opens the journal of a generation.
    pub(crate) fn generation(number: u32) -> Self {
        let name = StepName::new("generation").expect("a valid name");
        let bytes = Bytes::from(number.to_string());
        let encoding = Some(Encoding::new("json").expect("a valid encoding"));
        Self { kind: StepKind::Generation, encoding, ..Self::run(0, name, bytes) }
    }

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
