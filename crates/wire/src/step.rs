//! Steps: the journal of an execution, written by whoever holds it and read by whoever goes on.

use bytes::Bytes;
use ff_core::decide::steps::RecordSteps;
use ff_core::step::{Step, StepKind, StepOutcome, StepRecord};
use ff_core::text::{OperationId, StepName};
use ff_core::{ExecutionId, Millis, Rejection};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::bounds::check_limit;
use crate::lease::Fence;
use crate::payload::{Fields, Json, Payload, RESULT, present};
use crate::words;

/// Steps in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 100;

/// Add steps to the journal of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StepsRequest {
    /// Proof of holding it.
    pub fence: Fence,
    /// At least one, at most 1000, by ascending number.
    #[schema(min_items = 1, max_items = 1000)]
    pub steps: Vec<NewStep>,
}

impl StepsRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Result<RecordSteps, Rejection> {
        let steps = into_steps(self.steps)?;
        Ok(RecordSteps { id, fence: self.fence.into(), steps })
    }
}

/// A step to record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewStep {
    /// Its place in the order of recording: after the largest number in the journal.
    pub number: u32,
    /// Which operation of the handler it is, in the words of whoever runs it; needed where operations run
    /// side by side and are recorded in no fixed order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256, example = "3/1.0", nullable = false)]
    pub operation: Option<String>,
    /// What it is (default `run`).
    #[serde(default = "run")]
    #[schema(value_type = words::StepKind, required = false)]
    pub kind: StepKind,
    /// What its author calls it.
    #[schema(example = "charge the card")]
    pub name: String,
    /// What became of it (default `done`). The result of one that `failed` has the fields `message`,
    /// `category` and `class`, that of a race the number of the arm that `won`; one that `fired` or was
    /// `abandoned` has none.
    #[serde(default = "done", skip_serializing_if = "is_done")]
    #[schema(value_type = words::StepOutcome, required = false)]
    pub outcome: StepOutcome,
    /// When, as the handler is told whenever it runs (default: when it is recorded).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, nullable = false)]
    pub time: Option<Millis>,
    /// How long it took, by the worker's clock.
    #[serde(default)]
    pub ran_ms: u64,
    /// Its result: any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub result: Option<Json>,
    /// Its result, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub result_base64: Option<String>,
    /// What the bytes of `result_base64` are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

/// The steps of a command.
pub(crate) fn into_steps(steps: Vec<NewStep>) -> Result<Vec<Step>, Rejection> {
    steps.into_iter().map(NewStep::into_step).collect()
}

fn run() -> StepKind {
    StepKind::Run
}

fn done() -> StepOutcome {
    StepOutcome::Done
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_done(outcome: &StepOutcome) -> bool {
    *outcome == StepOutcome::Done
}

impl NewStep {
    fn into_step(self) -> Result<Step, Rejection> {
        let result = Payload::read(RESULT, (self.result, self.result_base64, self.encoding))?;
        let (bytes, encoding) =
            result.map_or((Bytes::new(), None), |result| (result.bytes, result.encoding));
        Ok(Step {
            number: self.number,
            operation: self.operation.map(OperationId::new).transpose()?,
            kind: self.kind,
            name: StepName::new(self.name)?,
            outcome: self.outcome,
            time: self.time,
            ran_ms: self.ran_ms,
            encoding,
            bytes,
        })
    }
}

impl From<Step> for NewStep {
    fn from(step: Step) -> Self {
        let (result, result_base64, encoding) = fields_of(&step);
        let Step { number, operation, kind, name, outcome, time, ran_ms, .. } = step;
        let (operation, name) = (operation.map(String::from), name.into());
        Self {
            number,
            operation,
            kind,
            name,
            outcome,
            time,
            ran_ms,
            result,
            result_base64,
            encoding,
        }
    }
}

/// A step without bytes and encoding has no result.
fn fields_of(step: &Step) -> Fields {
    if step.bytes.is_empty() && step.encoding.is_none() {
        return (None, None, None);
    }
    Payload { encoding: step.encoding.clone(), bytes: step.bytes.clone() }.write()
}

/// Which page of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StepParams {
    /// After this number: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// Steps in the page (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl StepParams {
    /// The limit that applies.
    pub fn limit(self) -> Result<u32, Rejection> {
        check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))
    }
}

/// A page of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepPage {
    /// The steps, by ascending number.
    pub steps: Vec<StepLine>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    pub next: Option<u32>,
}

/// A step as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StepLine {
    /// Its place in the order of recording, from zero.
    pub number: u32,
    /// Which operation of the handler it is; nothing where its number says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub operation: Option<String>,
    /// What it is.
    #[schema(value_type = words::StepKind)]
    pub kind: StepKind,
    /// What its author calls it.
    pub name: String,
    /// What became of it (default `done`).
    #[serde(default = "done", skip_serializing_if = "is_done")]
    #[schema(value_type = words::StepOutcome, required = false)]
    pub outcome: StepOutcome,
    /// When, as the handler is told; nothing is when it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, nullable = false)]
    pub time: Option<Millis>,
    /// The attempt that took it.
    pub attempt_index: u32,
    /// When it was recorded.
    #[schema(value_type = i64)]
    pub at: Millis,
    /// How long it took, by the worker's clock.
    pub ran_ms: u64,
    /// Its result, when it is JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub result: Option<Json>,
    /// Its result, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64", nullable = false)]
    pub result_base64: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
}

impl From<StepRecord> for StepLine {
    fn from(record: StepRecord) -> Self {
        let StepRecord { execution: _, step, attempt_index, at } = record;
        let NewStep { number, operation, kind, name, outcome, time, ran_ms, .. } =
            step.clone().into();
        let (result, result_base64, encoding) = fields_of(&step);
        Self {
            number,
            operation,
            kind,
            name,
            outcome,
            time,
            attempt_index,
            at,
            ran_ms,
            result,
            result_base64,
            encoding,
        }
    }
}

impl StepLine {
    /// The record that it shows.
    pub fn into_record(self, execution: ExecutionId) -> Result<StepRecord, Rejection> {
        let (attempt_index, at) = (self.attempt_index, self.at);
        let step = NewStep {
            number: self.number,
            operation: self.operation,
            kind: self.kind,
            name: self.name,
            outcome: self.outcome,
            time: self.time,
            ran_ms: self.ran_ms,
            result: self.result,
            result_base64: self.result_base64,
            encoding: self.encoding,
        };
        Ok(StepRecord { execution, step: step.into_step()?, attempt_index, at })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn line(step: &serde_json::Value) -> StepLine {
        let new: NewStep = serde_json::from_str(&step.to_string()).unwrap();
        let execution = ExecutionId::solo(Uuid::nil());
        let step = new.into_step().unwrap();
        StepRecord { execution, step, attempt_index: 1, at: Millis(9) }.into()
    }

    #[test]
    fn a_step_is_answered_as_it_was_said() {
        let shown = line(&json!({"number": 3, "name": "pay", "result": null}));
        assert_eq!(
            serde_json::to_value(&shown).unwrap(),
            json!({"number": 3, "kind": "run", "name": "pay", "attempt_index": 1, "at": 9,
                   "ran_ms": 0, "result": null, "encoding": "json"})
        );
        let shown = line(&json!({"number": 0, "name": "nap", "kind": "sleep", "ran_ms": 5}));
        assert_eq!(
            serde_json::to_value(&shown).unwrap(),
            json!({"number": 0, "kind": "sleep", "name": "nap", "attempt_index": 1, "at": 9,
                   "ran_ms": 5})
        );
    }

    #[test]
    fn a_reader_finds_the_record_in_its_line() {
        let execution = ExecutionId::solo(Uuid::nil());
        let step = Step {
            operation: Some(OperationId::new("3/1.0").unwrap()),
            kind: StepKind::Race,
            outcome: StepOutcome::Open,
            time: Some(Millis(3)),
            ran_ms: 2,
            ..Step::run(1, StepName::new("dice").unwrap(), Bytes::from_static(&[0, 255]))
        };
        let record = StepRecord { execution, step, attempt_index: 0, at: Millis(4) };
        let shown = StepLine::from(record.clone());
        assert_eq!(shown.into_record(execution).unwrap(), record);
    }
}
