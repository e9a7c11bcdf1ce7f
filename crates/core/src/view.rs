//! What users read: views computed from an execution at one moment.

mod flow;
mod suspension;

use serde::Serialize;

use crate::event::FeedEvent;
use crate::execution::{
    AttemptKind, AttemptOutcome, AttemptRecord, CancelledBy, Counts, Ending, Execution, Failure,
    Fence, Next, Progress, State, Tags, Worker,
};
use crate::ids::{ExecutionId, FlowId};
use crate::state::{BlockingReason, PublicState, StateVector, vector};
use crate::step::StepRecord;
use crate::text::{ConsumerName, Creator, Kind, LaneId, Namespace, NodeName};
use crate::time::Millis;

pub use flow::{EdgeGroupSnapshot, EdgeSnapshot, FlowSnapshot, FlowSummary};
pub use suspension::{ApprovalView, SuspensionSnapshot, WaitpointSnapshot};

/// A durable consumer of the feed, for which events are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsumerSnapshot {
    /// What it is called.
    pub name: ConsumerName,
    /// When it was registered, or last said how far it is.
    pub acknowledged_at: Millis,
}

/// Everything a person wants to see of an execution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecutionSnapshot {
    /// Its id.
    pub execution_id: ExecutionId,
    /// Tenancy scope.
    pub namespace: Namespace,
    /// Its lane.
    pub lane_id: LaneId,
    /// What kind of work.
    pub execution_kind: Kind,
    /// The flow it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_id: Option<FlowId>,
    /// What it is called there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// Who created it.
    pub creator_identity: Creator,
    /// How urgent.
    pub priority: i32,
    /// Where it stands.
    pub public_state: PublicState,
    /// What it waits for.
    pub blocking_reason: BlockingReason,
    /// What it waits for, in words.
    pub blocking_detail: Option<String>,
    /// The attempt under way or interrupted, or the one it ended with.
    pub current_attempt: Option<AttemptView>,
    /// The lease, while a worker holds it.
    pub current_lease: Option<LeaseView>,
    /// What the last attempt failed with, while that matters.
    pub failure: Option<Failure>,
    /// Who cancelled it.
    pub cancelled_by: Option<CancelledBy>,
    /// Why it was cancelled or expired.
    pub ended_because: Option<String>,
    /// How far its worker says it is.
    pub progress: Option<Progress>,
    /// Attempts, retries, reclaims, replays.
    pub counts: Counts,
    /// Counts changes.
    pub version: u64,
    /// Created.
    pub created_at: Millis,
    /// First claimed.
    pub started_at: Option<Millis>,
    /// Ended.
    pub completed_at: Option<Millis>,
    /// Expires for good.
    pub deadline_at: Option<Millis>,
    /// Last changed.
    pub last_mutation_at: Millis,
    /// Its tags.
    pub tags: Tags,
}

/// The current attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptView {
    /// Counts from zero.
    pub index: u32,
    /// Why it was made.
    pub kind: AttemptKind,
    /// Who runs it, or ran it last.
    pub worker: Worker,
    /// When it began.
    pub started_at: Millis,
}

/// The current lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseView {
    /// What its holder presents.
    pub fence: Fence,
    /// Who holds it.
    pub worker: Worker,
    /// Ends, unless renewed.
    pub expires_at: Millis,
    /// Last sign of life.
    pub last_heartbeat_at: Millis,
}

impl ExecutionSnapshot {
    /// `x` at `now`.
    pub fn of(x: &Execution, now: Millis) -> Self {
        let state = vector(x, now);
        let (failure, cancelled_by, ended_because) = troubles(x);
        Self {
            execution_id: x.id,
            namespace: x.spec.namespace.clone(),
            lane_id: x.spec.lane.clone(),
            execution_kind: x.spec.kind.clone(),
            flow_id: x.flow(),
            node: x.member.as_ref().and_then(|member| member.node.clone()),
            creator_identity: x.spec.creator.clone(),
            priority: x.priority.get(),
            public_state: state.public_state,
            blocking_reason: state.blocking_reason,
            blocking_detail: state.blocking_detail,
            current_attempt: current_attempt(x),
            current_lease: current_lease(x),
            failure,
            cancelled_by,
            ended_because,
            progress: x.progress.clone(),
            counts: x.counts,
            version: x.version,
            created_at: x.spec.created_at,
            started_at: x.started_at,
            completed_at: completed_at(x),
            deadline_at: x.deadline_at,
            last_mutation_at: x.updated_at,
            tags: x.tags.clone(),
        }
    }
}

/// The state vector with what identifies the execution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExecutionInfo {
    /// Its id.
    pub execution_id: ExecutionId,
    /// Tenancy scope.
    pub namespace: Namespace,
    /// Its lane.
    pub lane_id: LaneId,
    /// How urgent.
    pub priority: i32,
    /// What kind of work.
    pub execution_kind: Kind,
    /// Every dimension of its state.
    pub state_vector: StateVector,
    /// Created.
    pub created_at: Millis,
    /// First claimed.
    pub started_at: Option<Millis>,
    /// Ended.
    pub completed_at: Option<Millis>,
    /// The attempt under way, or the last one.
    pub current_attempt_index: u32,
    /// Attempts so far.
    pub total_attempt_count: u32,
    /// The flow it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_id: Option<FlowId>,
}

impl ExecutionInfo {
    /// `x` at `now`.
    pub fn of(x: &Execution, now: Millis) -> Self {
        Self {
            execution_id: x.id,
            namespace: x.spec.namespace.clone(),
            lane_id: x.spec.lane.clone(),
            priority: x.priority.get(),
            execution_kind: x.spec.kind.clone(),
            state_vector: vector(x, now),
            created_at: x.spec.created_at,
            started_at: x.started_at,
            completed_at: completed_at(x),
            current_attempt_index: x.counts.attempts.saturating_sub(1),
            total_attempt_count: x.counts.attempts,
            flow_id: x.flow(),
        }
    }
}

/// One line of an execution's history of attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptLine {
    /// The attempt.
    #[serde(flatten)]
    pub attempt: AttemptView,
    /// When it ended; nothing while it runs.
    pub ended_at: Option<Millis>,
    /// How it ended.
    pub outcome: Option<AttemptOutcome>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

impl From<AttemptRecord> for AttemptLine {
    fn from(record: AttemptRecord) -> Self {
        Self {
            attempt: AttemptView {
                index: record.index,
                kind: record.kind,
                worker: record.worker,
                started_at: record.started_at,
            },
            ended_at: Some(record.ended_at),
            outcome: Some(record.outcome),
            failure: record.failure,
        }
    }
}

impl AttemptLine {
    /// The attempt that is still on the execution, as a line of history.
    pub fn current(x: &Execution) -> Option<Self> {
        match &x.state {
            State::Terminal(terminal) => terminal.last_attempt(x.id).map(Self::from),
            State::Runnable(_) | State::Active(_) | State::Suspended(_) => current_attempt(x)
                .map(|attempt| Self { attempt, ended_at: None, outcome: None, failure: None }),
        }
    }
}

/// Everything that happened to an execution, as a person reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Where it stands.
    pub snapshot: ExecutionSnapshot,
    /// Its attempts, oldest first, the current one included.
    pub attempts: Vec<AttemptLine>,
    /// What it has done, in order.
    pub steps: Vec<StepRecord>,
    /// What happened, oldest first.
    pub events: Vec<FeedEvent>,
    /// Whether there are more attempts, steps or events than the first thousand of each shown here.
    pub more: bool,
}

fn current_attempt(x: &Execution) -> Option<AttemptView> {
    let attempt = match &x.state {
        State::Active(active) => Some(&active.attempt),
        State::Suspended(suspended) => Some(&suspended.attempt),
        State::Terminal(terminal) => terminal.attempt.as_ref(),
        State::Runnable(runnable) => match &runnable.next {
            Next::Resume(attempt) => Some(attempt),
            Next::First | Next::Retry(_) | Next::Reclaim | Next::Replay => None,
        },
    };
    attempt.map(|attempt| AttemptView {
        index: attempt.index,
        kind: attempt.kind,
        worker: attempt.worker.clone(),
        started_at: attempt.started_at,
    })
}

fn current_lease(x: &Execution) -> Option<LeaseView> {
    match &x.state {
        State::Active(active) => Some(LeaseView {
            fence: x.fence(),
            worker: active.attempt.worker.clone(),
            expires_at: active.lease.until,
            last_heartbeat_at: active.lease.renewed_at,
        }),
        State::Runnable(_) | State::Suspended(_) | State::Terminal(_) => None,
    }
}

fn completed_at(x: &Execution) -> Option<Millis> {
    match &x.state {
        State::Terminal(terminal) => Some(terminal.at),
        State::Runnable(_) | State::Active(_) | State::Suspended(_) => None,
    }
}

/// What went wrong: the failure that matters now, who cancelled it, why it ended.
fn troubles(x: &Execution) -> (Option<Failure>, Option<CancelledBy>, Option<String>) {
    match &x.state {
        State::Runnable(runnable) => match &runnable.next {
            Next::Retry(failure) => (Some(failure.clone()), None, None),
            Next::Resume(attempt) => (attempt.after.clone(), None, None),
            Next::First | Next::Reclaim | Next::Replay => (None, None, None),
        },
        State::Active(active) => (active.attempt.after.clone(), None, None),
        State::Suspended(suspended) => (suspended.attempt.after.clone(), None, None),
        State::Terminal(terminal) => match &terminal.ending {
            Ending::Success { .. } => (None, None, None),
            Ending::Failed(failure) => (Some(failure.clone()), None, Some(failure.reason.clone())),
            Ending::Cancelled { by, reason } => (None, Some(*by), Some(reason.clone())),
            Ending::Expired { reason } | Ending::Skipped { reason } => {
                (None, None, Some(reason.clone()))
            }
        },
    }
}
