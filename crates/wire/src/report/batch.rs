//! Many reports at once: each names its operation and execution, and has its own answer.
//!
//! A report is one flat object. A field that its operation does not take is refused, as it would be
//! on a route of its own.

use ff_core::decide::Decide as _;
use ff_core::decide::complete::Complete;
use ff_core::decide::delay::Delay;
use ff_core::decide::fail::Fail;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::release::Release;
use ff_core::decide::steps::RecordSteps;
use ff_core::{Code, ExecutionId, Millis, Rejection};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    CompleteRequest, DelayAnswer, DelayRequest, FailAnswer, FailRequest, FailureClass,
    ProgressRequest, ReleaseRequest,
};
use crate::bounds::check_items;
use crate::lease::Fence;
use crate::payload::{Json, present};
use crate::problem::Problem;
use crate::step::{NewStep, StepsRequest};

/// Reports about any number of executions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportsRequest {
    /// At least one, at most 1000. Several about one execution take effect in their order.
    #[schema(min_items = 1, max_items = 1000)]
    pub reports: Vec<Report>,
}

impl ReportsRequest {
    /// The commands, in order; what one of them is refused for concerns no other.
    pub fn into_orders(self, now: Millis) -> Result<Vec<Result<Order, Rejection>>, Rejection> {
        check_items("reports", self.reports.len())?;
        Ok(self.reports.into_iter().map(|report| report.into_order(now)).collect())
    }
}

/// What a report does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// Ends the execution with success; takes `result` or `result_base64`, and `encoding`.
    Complete,
    /// Ends the attempt with a failure; takes `reason`, `category` and `class`.
    Fail,
    /// Gives it back for a while; takes `delay_until` or `delay_ms`, and `steps`.
    Delay,
    /// Undoes the claim; takes nothing.
    Release,
    /// Says how far the work is; takes `percent` and `message`.
    Progress,
    /// Adds to the journal; takes `steps`.
    Steps,
}

impl Op {
    fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Fail => "fail",
            Self::Delay => "delay",
            Self::Release => "release",
            Self::Progress => "progress",
            Self::Steps => "steps",
        }
    }

    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Complete => &["result", "result_base64", "encoding"],
            Self::Fail => &["reason", "category", "class"],
            Self::Delay => &["delay_until", "delay_ms", "steps"],
            Self::Release => &[],
            Self::Progress => &["percent", "message"],
            Self::Steps => &["steps"],
        }
    }
}

/// One report. Which fields it takes depends on `op`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// What it does.
    pub op: Op,
    /// To which execution.
    pub execution_id: String,
    /// Proof of holding it.
    pub fence: Fence,
    /// `complete`: what came out of it, as any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub result: Option<Json>,
    /// `complete`: what came out of it, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub result_base64: Option<String>,
    /// `complete`: what the bytes of `result_base64` are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// `fail`: why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `fail`: in the worker's vocabulary (default `error`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// `fail`: whether trying again can help (default `transient`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// `delay`: not to be claimed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub delay_until: Option<Millis>,
    /// `delay`: not to be claimed for so long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// `progress`: percent done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 100)]
    pub percent: Option<u8>,
    /// `progress`: in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// `steps` and `delay`: what to add to the journal, by ascending number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub steps: Vec<NewStep>,
}

/// The command that a report asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Of `complete`.
    Complete(Complete),
    /// Of `fail`.
    Fail(Fail),
    /// Of `delay`.
    Delay(Delay),
    /// Of `release`.
    Release(Release),
    /// Of `progress`.
    Progress(ReportProgress),
    /// Of `steps`.
    Steps(RecordSteps),
}

impl Order {
    /// The execution it is about.
    pub fn execution_id(&self) -> ExecutionId {
        match self {
            Self::Complete(complete) => complete.id,
            Self::Fail(fail) => fail.id,
            Self::Delay(delay) => delay.id,
            Self::Release(release) => release.id,
            Self::Progress(progress) => progress.id,
            Self::Steps(steps) => steps.id,
        }
    }

    /// About how large it is.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Complete(complete) => complete.bytes(),
            Self::Fail(fail) => fail.bytes(),
            Self::Delay(delay) => delay.bytes(),
            Self::Release(release) => release.bytes(),
            Self::Progress(progress) => progress.bytes(),
            Self::Steps(steps) => steps.bytes(),
        }
    }
}

impl Report {
    /// A report that says nothing yet but what it is about. Set what its operation takes.
    pub fn new(op: Op, execution_id: ExecutionId, fence: Fence) -> Self {
        Self {
            op,
            execution_id: execution_id.to_string(),
            fence,
            result: None,
            result_base64: None,
            encoding: None,
            reason: None,
            category: None,
            class: None,
            delay_until: None,
            delay_ms: None,
            percent: None,
            message: None,
            steps: Vec::new(),
        }
    }

    /// The command; a length of time counts from `now`.
    pub fn into_order(self, now: Millis) -> Result<Order, Rejection> {
        self.check_fields()?;
        let id: ExecutionId = self.execution_id.parse()?;
        let fence = self.fence;
        Ok(match self.op {
            Op::Complete => {
                let Self { result, result_base64, encoding, .. } = self;
                let complete = CompleteRequest { fence, result, result_base64, encoding };
                Order::Complete(complete.into_command(id)?)
            }
            Op::Fail => {
                let Self { reason, category, class, .. } = self;
                let reason = reason.ok_or_else(|| missing("reason"))?;
                Order::Fail(FailRequest { fence, reason, category, class }.into_command(id)?)
            }
            Op::Delay => {
                let Self { delay_until, delay_ms, steps, .. } = self;
                let delay = DelayRequest { fence, delay_until, delay_ms, steps };
                Order::Delay(delay.into_command(id, now)?)
            }
            Op::Release => Order::Release(ReleaseRequest { fence }.into_command(id)),
            Op::Progress => {
                let Self { percent, message, .. } = self;
                Order::Progress(ProgressRequest { fence, percent, message }.into_command(id))
            }
            Op::Steps => Order::Steps(StepsRequest { fence, steps: self.steps }.into_command(id)?),
        })
    }

    fn check_fields(&self) -> Result<(), Rejection> {
        let given = [
            ("result", self.result.is_some()),
            ("result_base64", self.result_base64.is_some()),
            ("encoding", self.encoding.is_some()),
            ("reason", self.reason.is_some()),
            ("category", self.category.is_some()),
            ("class", self.class.is_some()),
            ("delay_until", self.delay_until.is_some()),
            ("delay_ms", self.delay_ms.is_some()),
            ("percent", self.percent.is_some()),
            ("message", self.message.is_some()),
            ("steps", !self.steps.is_empty()),
        ];
        let taken = self.op.fields();
        match given.into_iter().find(|(field, given)| *given && !taken.contains(field)) {
            None => Ok(()),
            Some((field, _)) => {
                let why = format!("is no field of op {}", self.op.word());
                Err(Rejection::invalid(Code::InvalidInput, field, "", why))
            }
        }
    }
}

fn missing(field: &'static str) -> Rejection {
    Rejection::invalid(Code::InvalidInput, field, "", "is missing")
}

/// The answers, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReportsAnswer {
    /// One for each.
    pub results: Vec<ReportOutcome>,
}

/// What became of one report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ReportOutcome {
    /// `complete`: the execution ended with success.
    Completed,
    /// `fail`: another attempt will follow.
    RetryScheduled {
        /// Not before.
        #[schema(value_type = i64)]
        delay_until: Millis,
        /// Its index.
        next_attempt_index: u32,
    },
    /// `fail`: the execution ended.
    Failed,
    /// `delay`: it waits.
    Delayed {
        /// Not claimed before.
        #[schema(value_type = i64)]
        delay_until: Millis,
    },
    /// `release`: it waits for a worker again.
    Released,
    /// `progress` and `steps`: it is written down.
    Recorded,
    /// It was refused; the others were not affected.
    Rejected {
        /// Why.
        problem: Box<Problem>,
    },
}

impl ReportOutcome {
    /// It was refused.
    pub fn rejected(problem: Problem) -> Self {
        Self::Rejected { problem: Box::new(problem) }
    }
}

impl From<FailAnswer> for ReportOutcome {
    fn from(answer: FailAnswer) -> Self {
        match answer {
            FailAnswer::RetryScheduled { delay_until, next_attempt_index } => {
                Self::RetryScheduled { delay_until, next_attempt_index }
            }
            FailAnswer::Failed => Self::Failed,
        }
    }
}

impl From<DelayAnswer> for ReportOutcome {
    fn from(answer: DelayAnswer) -> Self {
        match answer {
            DelayAnswer::Delayed { delay_until } => Self::Delayed { delay_until },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn order(mut body: Value) -> Result<Order, Rejection> {
        body["execution_id"] = json!(ExecutionId::solo(Uuid::nil()));
        body["fence"] = json!({"attempt_index": 0, "lease_epoch": 1});
        let report: Report = serde_json::from_str(&body.to_string()).unwrap();
        report.into_order(Millis(100))
    }

    #[test]
    fn a_report_asks_for_what_its_route_would() {
        let id = ExecutionId::solo(Uuid::nil());
        let fence = Fence { attempt_index: 0, lease_epoch: 1 }.into();
        let delay = Delay { id, fence, delay_until: Millis(107), steps: Vec::new() };
        assert_eq!(order(json!({"op": "delay", "delay_ms": 7})).unwrap(), Order::Delay(delay));
        let Order::Complete(complete) = order(json!({"op": "complete", "result": null})).unwrap()
        else {
            panic!("a completion was asked for");
        };
        assert_eq!(complete.result.as_deref(), Some(&b"null"[..]));
    }

    #[test]
    fn a_field_of_another_operation_is_refused() {
        for (body, field) in [
            (json!({"op": "release", "reason": "tired"}), "reason"),
            (json!({"op": "complete", "percent": 100}), "percent"),
            (json!({"op": "progress", "result": 1}), "result"),
            (json!({"op": "complete", "steps": [{"number": 0, "name": "pay"}]}), "steps"),
            (json!({"op": "fail"}), "reason"),
            (json!({"op": "delay"}), "delay_until"),
            (json!({"op": "delay", "delay_ms": 1, "delay_until": 1}), "delay_until"),
        ] {
            assert_eq!(order(body).unwrap_err().field, Some(field));
        }
    }
}
