//! Flat rows: how executions, attempts and events look as columns, the same in every database.
//!
//! Writing flattens; reading checks. A stored value that no writer of ours produces is a
//! [`StoreError::Corruption`] that names the column and shows the value; nothing is defaulted.

mod event;
mod execution;
mod flow;
mod suspension;

pub use event::EventRow;
pub use execution::{ExecutionRow, LeaseColumns};
pub use flow::{EdgeRow, FlowRow, GroupRow};
pub use suspension::{
    ArrivalRow, KeyColumns, SignalRow, SuspendKeyRow, SuspensionRow, WaitpointRow,
};

use std::fmt::Display;
use std::str::FromStr;

use bytes::Bytes;
use uuid::Uuid;

use crate::backend::StoreError;
use crate::execution::{AttemptOutcome, AttemptRecord, Failure, Worker};
use crate::ids::{ExecutionId, Partition};
use crate::step::{Step, StepRecord};
use crate::text::{Category, WorkerId, WorkerInstanceId};
use crate::time::Millis;

/// A corruption error for a column.
pub fn corrupt(column: &str, value: impl Display, why: impl Display) -> StoreError {
    StoreError::Corruption {
        column: column.to_owned(),
        value: value.to_string(),
        why: why.to_string(),
    }
}

/// Reads a text column as one of our types.
pub fn parse<T: FromStr<Err: Display>>(column: &str, text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|why| corrupt(column, text, why))
}

/// Reads a number column as one of our types.
pub fn number<T: TryFrom<i64>>(column: &str, value: i64) -> Result<T, StoreError> {
    T::try_from(value).map_err(|_| corrupt(column, value, "is out of range"))
}

/// Reads the two columns of an execution id.
pub fn execution_id(partition_key: i64, execution_id: &[u8]) -> Result<ExecutionId, StoreError> {
    let partition = Partition::new(partition_key)
        .ok_or_else(|| corrupt("partition_key", partition_key, "is not a partition"))?;
    let uuid = Uuid::from_slice(execution_id)
        .map_err(|why| corrupt("execution_id", format!("{execution_id:?}"), why))?;
    Ok(ExecutionId::from_parts(partition, uuid))
}

/// A column that must hold something in this state.
fn present<T>(column: &str, value: Option<T>) -> Result<T, StoreError> {
    value.ok_or_else(|| corrupt(column, "null", "must not be null in this state"))
}

/// A column that must hold nothing in this state.
fn absent(column: &str, value: Option<impl Display>) -> Result<(), StoreError> {
    let why = "must be null in this state";
    value.map_or(Ok(()), |value| Err(corrupt(column, value, why)))
}

/// The number as it is stored.
fn stored<T: TryInto<i64>>(value: T) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

fn worker_of(id: Option<&str>, instance: Option<&str>) -> Result<Worker, StoreError> {
    let id = present("worker_id", id)?;
    let instance = present("worker_instance_id", instance)?;
    Ok(Worker {
        id: parse::<WorkerId>("worker_id", id)?,
        instance: parse::<WorkerInstanceId>("worker_instance_id", instance)?,
    })
}

fn failure_of(reason: Option<&str>, category: Option<&str>) -> Result<Option<Failure>, StoreError> {
    let Some(reason) = reason else {
        return Ok(None);
    };
    let category = parse::<Category>("failure_category", present("failure_category", category)?)?;
    Ok(Some(Failure { reason: reason.to_owned(), category }))
}

/// An attempt that is over, as columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRow {
    /// Counts from zero.
    pub attempt_index: i64,
    /// Why it was made.
    pub kind: String,
    /// Who ran it last.
    pub worker_id: String,
    /// Who ran it last.
    pub worker_instance_id: String,
    /// When it began.
    pub started_at_ms: i64,
    /// When it ended.
    pub ended_at_ms: i64,
    /// How.
    pub outcome: String,
    /// Why it failed.
    pub failure_reason: Option<String>,
    /// Why it failed.
    pub failure_category: Option<String>,
}

impl From<&AttemptRecord> for AttemptRow {
    fn from(a: &AttemptRecord) -> Self {
        Self {
            attempt_index: i64::from(a.index),
            kind: a.kind.to_string(),
            worker_id: a.worker.id.to_string(),
            worker_instance_id: a.worker.instance.to_string(),
            started_at_ms: a.started_at.0,
            ended_at_ms: a.ended_at.0,
            outcome: a.outcome.to_string(),
            failure_reason: a.failure.as_ref().map(|f| f.reason.clone()),
            failure_category: a.failure.as_ref().map(|f| f.category.to_string()),
        }
    }
}

impl AttemptRow {
    /// The record of an attempt of `execution`.
    pub fn read(&self, execution: ExecutionId) -> Result<AttemptRecord, StoreError> {
        Ok(AttemptRecord {
            execution,
            index: number("attempt_index", self.attempt_index)?,
            kind: parse("kind", &self.kind)?,
            worker: worker_of(Some(&self.worker_id), Some(&self.worker_instance_id))?,
            started_at: Millis(self.started_at_ms),
            ended_at: Millis(self.ended_at_ms),
            outcome: match self.outcome.as_str() {
                // What earlier versions said of an attempt that ended because time was up.
                "ended_expired" => AttemptOutcome::Failure,
                word => parse("outcome", word)?,
            },
            failure: failure_of(self.failure_reason.as_deref(), self.failure_category.as_deref())?,
        })
    }
}

/// A step, as columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// Counts from zero.
    pub number: i64,
    /// The attempt that took it.
    pub attempt_index: i64,
    /// What it is.
    pub kind: String,
    /// What its author calls it.
    pub name: String,
    /// Which operation of the handler it is.
    pub operation: Option<String>,
    /// What became of it.
    pub outcome: String,
    /// The time of the outcome that handlers read; nothing is the time of recording.
    pub time_ms: Option<i64>,
    /// How long it took.
    pub ran_ms: i64,
    /// When it was recorded.
    pub at_ms: i64,
    /// How its result is encoded.
    pub encoding: Option<String>,
    /// Its result.
    pub bytes: Bytes,
}

impl StepRow {
    /// The step of `execution`.
    pub fn read(self, execution: ExecutionId) -> Result<StepRecord, StoreError> {
        let encoding = self.encoding.as_deref().map(|text| parse("encoding", text)).transpose()?;
        let step = Step {
            number: number("number", self.number)?,
            kind: parse("kind", &self.kind)?,
            name: parse("name", &self.name)?,
            operation: self.operation.map(|text| parse("operation", &text)).transpose()?,
            outcome: parse("outcome", &self.outcome)?,
            time: self.time_ms.map(Millis),
            ran_ms: number("ran_ms", self.ran_ms)?,
            encoding,
            bytes: self.bytes,
        };
        let attempt_index = number("attempt_index", self.attempt_index)?;
        Ok(StepRecord { execution, step, attempt_index, at: Millis(self.at_ms) })
    }
}
