//! Suspensions: an execution gives its slot back and waits for people, callbacks or a time; waitpoints: where
//! signals to it arrive; signals: what arrived.
//!
//! A suspension is open while its execution is suspended under the same epoch: whoever ends or resumes the
//! execution closes it by that alone, and so its waitpoints. What must stay true: a closed one is never
//! judged again, and a signal is stored with the change it causes.

mod signal;
mod waitpoint;

use uuid::Uuid;

use crate::condition::ResumeCondition;
use crate::execution::{Execution, State};
use crate::ids::ExecutionId;
use crate::state::words;
use crate::text::IdempotencyKey;
use crate::time::Millis;

pub use signal::{Arrival, Effect, Signal};
pub use waitpoint::{Counts, Waitpoint, WaitpointState, WaitpointWord};

words! {
    /// Why an execution suspends.
    SuspensionReason {
        WaitingForSignal = "waiting_for_signal",
        WaitingForApproval = "waiting_for_approval",
        WaitingForCallback = "waiting_for_callback",
        WaitingForToolResult = "waiting_for_tool_result",
        WaitingForOperatorReview = "waiting_for_operator_review",
        PausedByPolicy = "paused_by_policy",
        PausedByBudget = "paused_by_budget",
        StepBoundary = "step_boundary",
        ManualPause = "manual_pause",
    }
}

words! {
    /// Who asked for it.
    RequestedBy {
        Worker = "worker", Operator = "operator", Policy = "policy",
        SystemTimeoutPolicy = "system_timeout_policy",
    }
}

words! {
    /// What happens when nobody came in time.
    TimeoutBehavior {
        Fail = "fail",
        Cancel = "cancel",
        Expire = "expire",
        AutoResume = "auto_resume_with_timeout_signal",
        Escalate = "escalate",
    }
}

words! {
    /// How a suspension or a waitpoint was closed.
    CloseReason {
        Resumed = "resumed",
        Cancelled = "cancelled",
        TimedOutFail = "timed_out_fail",
        TimedOutCancel = "timed_out_cancel",
        TimedOutExpire = "timed_out_expire",
        TimedOutAutoResume = "timed_out_auto_resume",
        NeverCommitted = "never_committed",
        ProactiveClose = "proactive_close",
    }
}

/// The last suspension of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// Of which.
    pub execution: ExecutionId,
    /// Its id.
    pub id: Uuid,
    /// The epoch of the execution while it lasts.
    pub epoch: u64,
    /// The attempt that is paused.
    pub attempt_index: u32,
    /// Its first waitpoint.
    pub primary: Uuid,
    /// What it waits for.
    pub condition: ResumeCondition,
    /// How long after that it may be claimed.
    pub resume_delay_ms: u64,
    /// Why it was asked for.
    pub reason: SuspensionReason,
    /// By whom.
    pub requested_by: RequestedBy,
    /// Since when.
    pub since: Millis,
    /// What happens when nobody comes in time.
    pub timeout_behavior: TimeoutBehavior,
    /// Whatever helps the worker to go on.
    pub continuation: Option<String>,
    /// How it ended, unless its execution tells.
    pub end: Option<SuspensionEnd>,
}

/// How a suspension ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspensionEnd {
    /// When.
    pub at: Millis,
    /// How.
    pub how: CloseReason,
    /// The signals that did it, in the order of their arrival; the last one closed it.
    pub by: Vec<Uuid>,
}

impl Suspension {
    /// Whether `x` waits for it.
    pub fn is_open(&self, x: &Execution) -> bool {
        self.end.is_none() && self.epoch == x.epoch && matches!(x.state, State::Suspended(_))
    }
}

/// What a repeated suspension is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuspendKey {
    /// Of which execution.
    pub execution: ExecutionId,
    /// The key.
    pub key: IdempotencyKey,
    /// The suspension it stands for.
    pub suspension: Uuid,
    /// Its waitpoints, the first one first.
    pub waitpoints: Vec<Uuid>,
    /// Whether its condition was met at once, so that the execution went on.
    pub already_satisfied: bool,
    /// Forgotten after this.
    pub expires_at: Millis,
}
