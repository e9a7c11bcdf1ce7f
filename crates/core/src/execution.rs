//! The execution: a unit of work, its states, and the data each state carries.
//!
//! * The epoch grows by one on every acquire and every release of the lease, so an odd epoch is
//!   a lease and the lease before the current state is always `epoch - 1`.
//! * It begins at a number taken from the time of creation ([`first_epoch`]), so that an id that is
//!   used again after retention does not see the fences of its earlier life again.
//! * `version` grows by one with every change except a renewal, which only moves the lease.
//! * An ended attempt is history the moment the execution goes on without it.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Code, Rejection};
pub use crate::fingerprint::{Fingerprint, ResultDigest};
use crate::flow::Member;
use crate::ids::{ExecutionId, FlowId};
use crate::limits::PRIORITY_MAX;
use crate::policy::Policy;
use crate::state::{Phase, TerminalOutcome, words};
use crate::suspension::SuspensionReason;
use crate::text::{Category, Creator, IdempotencyKey, Kind, LaneId, Namespace};
use crate::text::{WorkerId, WorkerInstanceId};
use crate::time::Millis;

/// Tags: `owner.name` to text.
pub type Tags = BTreeMap<String, String>;

/// How urgent: 0 (default) to 9000, higher first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Priority(i32);

impl Priority {
    /// Refuses what is out of range; nothing is clamped.
    pub fn new(value: i32) -> Result<Self, Rejection> {
        if (0..=PRIORITY_MAX).contains(&value) {
            return Ok(Self(value));
        }
        let why = format!("is out of range; use 0 to {PRIORITY_MAX}");
        Err(Rejection::invalid(Code::InvalidInput, "priority", value, why))
    }

    /// The number.
    pub fn get(self) -> i32 {
        self.0
    }
}

/// What was fixed at creation.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Tenancy scope.
    pub namespace: Namespace,
    /// The queue it belongs to.
    pub lane: LaneId,
    /// What kind of work it is.
    pub kind: Kind,
    /// Who created it.
    pub creator: Creator,
    /// Retry, timeout and retention rules.
    pub policy: Policy,
    /// The key it was created under.
    pub idempotency_key: Option<IdempotencyKey>,
    /// What the creation said, for telling a repeat from a clash.
    pub fingerprint: Fingerprint,
    /// When.
    pub created_at: Millis,
}

/// How often things happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Attempts, the running one included; also the index of the next new one.
    pub attempts: u32,
    /// Retries since the creation or the last replay.
    pub retries: u32,
    /// Leases lost in a row: since the creation, the last replay, or the last step, pause or retried
    /// failure.
    pub reclaims: u32,
    /// Replays.
    pub replays: u32,
}

/// A unit of work. Clones share what they hold until one of them is changed: a batch keeps each
/// execution as it was, as it will be, and as it is remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct Execution(Arc<Facts>);

impl From<Facts> for Execution {
    fn from(facts: Facts) -> Self {
        Self(Arc::new(facts))
    }
}

impl Deref for Execution {
    type Target = Facts;
    fn deref(&self) -> &Facts {
        &self.0
    }
}

impl DerefMut for Execution {
    fn deref_mut(&mut self) -> &mut Facts {
        Arc::make_mut(&mut self.0)
    }
}

/// What an execution is.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Its id.
    pub id: ExecutionId,
    /// Counts changes.
    pub version: u64,
    /// What was fixed at creation.
    pub spec: Arc<Spec>,
    /// How urgent it is.
    pub priority: Priority,
    /// Its tags.
    pub tags: Tags,
    /// When it expires for good.
    pub deadline_at: Option<Millis>,
    /// The fencing number; even when created, odd while leased.
    pub epoch: u64,
    /// Attempts, retries, reclaims, replays.
    pub counts: Counts,
    /// What a worker last said about its progress.
    pub progress: Option<Progress>,
    /// The flow it belongs to; once it does, it always will.
    pub member: Option<Member>,
    /// The execution whose result took the place of its input.
    pub input_from: Option<ExecutionId>,
    /// First claim; never changes again.
    pub started_at: Option<Millis>,
    /// Last change.
    pub updated_at: Millis,
    /// Where it stands.
    pub state: State,
}

impl Facts {
    /// The flow it belongs to.
    pub fn flow(&self) -> Option<FlowId> {
        self.member.as_ref().map(|member| member.flow)
    }

    /// The time before which it cannot be claimed, if it is delayed or backs off.
    pub fn waits_until(&self) -> Option<Millis> {
        match &self.state {
            State::Runnable(runnable) => runnable.wait.map(|wait| wait.until),
            State::Active(_) | State::Suspended(_) | State::Terminal(_) => None,
        }
    }
}

/// Where an execution stands, with what that entails.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Waiting for a worker: now, from some time on, or until an operator lets go.
    Runnable(Runnable),
    /// A worker holds it.
    Active(Active),
    /// It waits for a signal, an operator or a time.
    Suspended(Suspended),
    /// It ended.
    Terminal(Terminal),
}

impl State {
    /// The phase column.
    pub fn phase(&self) -> Phase {
        match self {
            Self::Runnable(_) => Phase::Runnable,
            Self::Active(_) => Phase::Active,
            Self::Suspended(_) => Phase::Suspended,
            Self::Terminal(_) => Phase::Terminal,
        }
    }
}

/// Waiting for a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Runnable {
    /// What the next claim will be.
    pub next: Next,
    /// Not before some time. Kept when it has passed: the next claim clears it.
    pub wait: Option<Wait>,
    /// Not until an operator lets go.
    pub hold: Option<Hold>,
    /// Not until the group of its edges is satisfied.
    pub gated: bool,
    /// How the last lease ended, for the worker that held it.
    pub last_lease: Option<LeaseEnd>,
}

/// What the next claim of a runnable execution will be.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The first attempt.
    First,
    /// A new attempt after this failure.
    Retry(Failure),
    /// A new attempt after a lost lease.
    Reclaim,
    /// A new attempt on request, after it had ended.
    Replay,
    /// The same attempt goes on.
    Resume(Attempt),
}

words! {
    /// Why a runnable execution waits for a time. The backoff is that of a reclaim if one comes next.
    WaitReason { Delay = "delay", RetryBackoff = "retry_backoff", ResumeDelay = "resume_delay" }
}

/// Not before some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The earliest claim.
    pub until: Millis,
    /// Why.
    pub reason: WaitReason,
}

/// An operator's hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: Millis,
}

words! {
    /// How a lease ended.
    LeaseEnd {
        Completed = "completed", Failed = "failed", Cancelled = "cancelled",
        Delayed = "delayed", Released = "released", Waiting = "waiting",
        Suspended = "suspended", Expired = "expired", Revoked = "revoked",
    }
}

/// A worker holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Active {
    /// What is being tried.
    pub attempt: Attempt,
    /// Until when it may.
    pub lease: Lease,
    /// Whether this lease continues an attempt that an earlier lease began.
    pub resumed: bool,
    /// When the attempt has used up its time.
    pub timeout_at: Option<Millis>,
}

/// It waits for a signal, an operator or a time. What exactly, its suspension tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Suspended {
    /// The attempt that is paused.
    pub attempt: Attempt,
    /// Why.
    pub reason: SuspensionReason,
    /// When nobody came in time.
    pub deadline: Option<Millis>,
    /// When nobody had come, and it was handed to an operator.
    pub missed: Option<Millis>,
    /// How the last lease ended, for the worker that held it.
    pub last_lease: Option<LeaseEnd>,
}

/// The right to act on an execution, until some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The claim that granted it; a repeated claim finds it again.
    pub claim_id: Uuid,
    /// Granted.
    pub acquired_at: Millis,
    /// Last renewed: the last sign of life.
    pub renewed_at: Millis,
    /// Ends, unless renewed.
    pub until: Millis,
    /// When the sweep looks next. It may lag behind `until`, so that renewing moves no index
    /// entry; it is never later.
    pub check_at: Millis,
}

words! {
    /// Why an attempt was made.
    AttemptKind {
        Initial = "initial", Retry = "retry", Reclaim = "reclaim", Replay = "replay",
    }
}

/// One try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Counts from zero.
    pub index: u32,
    /// Why it was made.
    pub kind: AttemptKind,
    /// Who runs it, or ran it last.
    pub worker: Worker,
    /// When it began.
    pub started_at: Millis,
    /// How long earlier leases of the same attempt ran; the attempt timeout counts it.
    pub ran_ms: u64,
    /// What the attempt before it failed with, to be shown while this one runs.
    pub after: Option<Failure>,
}

/// A worker process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Worker {
    /// Its pool.
    pub id: WorkerId,
    /// This incarnation.
    pub instance: WorkerInstanceId,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// In words.
    pub reason: String,
    /// In the worker's vocabulary; retry policies select by it.
    pub category: Category,
}

/// It ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Terminal {
    /// How.
    pub ending: Ending,
    /// When.
    pub at: Millis,
    /// The attempt that was under way or had been interrupted.
    pub attempt: Option<Attempt>,
    /// How the last lease ended, for the worker that held it.
    pub last_lease: Option<LeaseEnd>,
    /// Removed after this.
    pub retain_until: Millis,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its worker completed it.
    Success {
        /// Whether there is a result to read.
        result: bool,
        /// What tells a repeat of it from another; nothing if it ended before that was kept.
        digest: Option<ResultDigest>,
    },
    /// It failed and no retry was left or allowed.
    Failed(Failure),
    /// Somebody cancelled it.
    Cancelled {
        /// Who.
        by: CancelledBy,
        /// Why.
        reason: String,
    },
    /// It ran out of time for good.
    Expired {
        /// Which limit.
        reason: String,
    },
    /// What it waited for can never be.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl Ending {
    /// The outcome column.
    pub fn outcome(&self) -> TerminalOutcome {
        match self {
            Self::Success { .. } => TerminalOutcome::Success,
            Self::Failed(_) => TerminalOutcome::Failed,
            Self::Cancelled { .. } => TerminalOutcome::Cancelled,
            Self::Expired { .. } => TerminalOutcome::Expired,
            Self::Skipped { .. } => TerminalOutcome::Skipped,
        }
    }
}

words! {
    /// Who cancelled an execution.
    CancelledBy {
        Worker = "worker", Operator = "operator", CancelFlow = "cancel_flow", Engine = "engine",
        SystemTimeout = "system_timeout",
    }
}

/// What a worker said about its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Percent done.
    pub percent: Option<u8>,
    /// In words.
    pub message: Option<String>,
    /// When.
    pub at: Millis,
}

/// The epoch of an execution created at this time: even, and past every epoch of an earlier life
/// of its id that had at most one lease per millisecond.
pub fn first_epoch(created_at: Millis) -> u64 {
    /// Keeps a clock that reads nonsense from leaving the range of what is stored.
    const AT_MOST: u64 = 1 << 60;
    2 * created_at.since(Millis::ZERO).min(AT_MOST)
}

/// Proof of holding a lease: an attempt and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The attempt.
    pub attempt_index: u32,
    /// The epoch of the lease.
    pub lease_epoch: u64,
}

words! {
    /// How an attempt ended.
    AttemptOutcome {
        Success = "ended_success", Failure = "ended_failure", Cancelled = "ended_cancelled",
        Interrupted = "interrupted_reclaimed",
    }
}

/// An attempt that is over: what history keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRecord {
    /// Whose.
    pub execution: ExecutionId,
    /// Counts from zero.
    pub index: u32,
    /// Why it was made.
    pub kind: AttemptKind,
    /// Who ran it last.
    pub worker: Worker,
    /// When it began.
    pub started_at: Millis,
    /// When it ended.
    pub ended_at: Millis,
    /// How.
    pub outcome: AttemptOutcome,
    /// Why it failed.
    pub failure: Option<Failure>,
}

impl Attempt {
    /// Closes the books on an attempt.
    pub fn record(
        &self,
        execution: ExecutionId,
        at: Millis,
        outcome: AttemptOutcome,
        failure: Option<Failure>,
    ) -> AttemptRecord {
        AttemptRecord {
            execution,
            index: self.index,
            kind: self.kind,
            worker: self.worker.clone(),
            started_at: self.started_at,
            ended_at: at,
            outcome,
            failure,
        }
    }
}

impl Terminal {
    /// The record of the attempt that ended with the execution.
    pub fn last_attempt(&self, execution: ExecutionId) -> Option<AttemptRecord> {
        let (outcome, failure) = match &self.ending {
            Ending::Success { .. } => (AttemptOutcome::Success, None),
            Ending::Failed(failure) => (AttemptOutcome::Failure, Some(failure.clone())),
            Ending::Cancelled { .. } | Ending::Skipped { .. } => (AttemptOutcome::Cancelled, None),
            Ending::Expired { reason } => {
                let category = Category::new("expired").expect("a valid category");
                let failure = Failure { reason: reason.clone(), category };
                (AttemptOutcome::Failure, Some(failure))
            }
        };
        self.attempt.as_ref().map(|a| a.record(execution, self.at, outcome, failure))
    }
}
