//! Reports: what a worker says about an execution that it holds.
//!
//! Every report carries the fence of its lease, and answers the same when it is sent twice. Reports
//! about many executions travel together in [`batch`].

pub mod batch;

use ff_core::decide::Failed;
use ff_core::decide::complete::Complete;
use ff_core::decide::delay::{Delay, Delayed};
use ff_core::decide::fail::Fail;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::text::Category;
use ff_core::{Code, ExecutionId, Millis, Rejection, policy};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::lease::Fence;
use crate::payload::{Json, Payload, RESULT, present};
use crate::step::{NewStep, into_steps};

pub use batch::{Op, Order, Report, ReportOutcome, ReportsAnswer, ReportsRequest};

/// The category of a failure when the worker does not say.
const CATEGORY_DEFAULT: &str = "error";

/// End an execution with success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompleteRequest {
    /// Proof of holding it.
    pub fence: Fence,
    /// What came out of it: any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub result: Option<Json>,
    /// What came out of it, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub result_base64: Option<String>,
    /// What the bytes of `result_base64` are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
}

impl CompleteRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Result<Complete, Rejection> {
        let result = Payload::read(RESULT, (self.result, self.result_base64, self.encoding))?;
        let (result, encoding) =
            result.map_or((None, None), |result| (Some(result.bytes), result.encoding));
        Ok(Complete { id, fence: self.fence.into(), result, encoding })
    }
}

/// The execution has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CompleteAnswer {
    /// With success.
    Completed,
}

/// End an attempt with a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailRequest {
    /// Proof of holding it.
    pub fence: Fence,
    /// Why, in words.
    pub reason: String,
    /// In the worker's vocabulary; retry policies select by it (default `error`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Whether trying again can help (default `transient`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
}

impl FailRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Result<Fail, Rejection> {
        let category = self.category.unwrap_or_else(|| CATEGORY_DEFAULT.to_owned());
        Ok(Fail {
            id,
            fence: self.fence.into(),
            reason: self.reason,
            category: Category::new(category)?,
            class: self.class.unwrap_or(FailureClass::Transient).into(),
        })
    }
}

/// What sort of failure it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// May succeed next time.
    Transient,
    /// Will never succeed.
    Permanent,
    /// The machinery under the worker failed.
    InfraCrash,
    /// It took too long.
    Timeout,
    /// The work was abandoned on purpose.
    Cancelled,
}

impl From<FailureClass> for policy::FailureClass {
    fn from(class: FailureClass) -> Self {
        match class {
            FailureClass::Transient => Self::Transient,
            FailureClass::Permanent => Self::Permanent,
            FailureClass::InfraCrash => Self::InfraCrash,
            FailureClass::Timeout => Self::Timeout,
            FailureClass::Cancelled => Self::Cancelled,
        }
    }
}

/// What a failure led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum FailAnswer {
    /// Another attempt will follow.
    RetryScheduled {
        /// Not before.
        #[schema(value_type = i64)]
        delay_until: Millis,
        /// Its index.
        next_attempt_index: u32,
    },
    /// The execution ended.
    Failed,
}

impl From<Failed> for FailAnswer {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::RetryScheduled { delay_until, next_attempt_index } => {
                Self::RetryScheduled { delay_until, next_attempt_index }
            }
            Failed::TerminalFailed => Self::Failed,
        }
    }
}

/// Give an execution back until some time, to go on with the same attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayRequest {
    /// Proof of holding it.
    pub fence: Fence,
    /// Not to be claimed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub delay_until: Option<Millis>,
    /// Not to be claimed for so long; instead of `delay_until`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Steps to record in the same transaction, so that whoever goes on finds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub steps: Vec<NewStep>,
}

impl DelayRequest {
    /// The command; a length of time counts from `now`.
    pub fn into_command(self, id: ExecutionId, now: Millis) -> Result<Delay, Rejection> {
        let delay_until = match (self.delay_until, self.delay_ms) {
            (Some(until), None) => until,
            (None, Some(ms)) => now.plus(ms),
            (Some(_), Some(_)) | (None, None) => {
                let why = "or delay_ms must be given, and not both";
                return Err(Rejection::invalid(Code::InvalidInput, "delay_until", "", why));
            }
        };
        let steps = into_steps(self.steps)?;
        Ok(Delay { id, fence: self.fence.into(), delay_until, steps })
    }
}

/// It waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum DelayAnswer {
    /// To go on later.
    Delayed {
        /// Not claimed before.
        #[schema(value_type = i64)]
        delay_until: Millis,
    },
}

impl From<Delayed> for DelayAnswer {
    fn from(delayed: Delayed) -> Self {
        Self::Delayed { delay_until: delayed.delay_until }
    }
}

/// Undo a claim; it does not count as an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRequest {
    /// Proof of holding it.
    pub fence: Fence,
}

impl ReleaseRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> Release {
        Release { id, fence: self.fence.into(), untaken: false }
    }
}

/// It waits for a worker again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ReleaseAnswer {
    /// As if it had not been claimed.
    Released,
}

/// Say how far the work is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgressRequest {
    /// Proof of holding it.
    pub fence: Fence,
    /// Percent done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub percent: Option<u8>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl ProgressRequest {
    /// The command.
    pub fn into_command(self, id: ExecutionId) -> ReportProgress {
        let Self { fence, percent, message } = self;
        ReportProgress { id, fence: fence.into(), percent, message, after: None }
    }
}

/// It is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RecordAnswer {
    /// And readable by everyone.
    Recorded,
}
