//! An execution as a person reads it, at one moment and over time.

use std::collections::BTreeMap;

use ff_core::execution::{self, AttemptKind, AttemptOutcome, CancelledBy};
use ff_core::state::{BlockingReason, PublicState};
use ff_core::view;
use ff_core::{ExecutionId, FlowId, Millis};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::event::FeedEvent;
use crate::lease::Fence;
use crate::step::StepLine;
use crate::words;

/// Everything a person wants to see of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExecutionSnapshot {
    /// Its id.
    #[schema(value_type = String, example = "{fp:77}:6ba7b810-9dad-11d1-80b4-00c04fd430c8")]
    pub execution_id: ExecutionId,
    /// Tenancy scope.
    pub namespace: String,
    /// Its lane.
    pub lane_id: String,
    /// What kind of work.
    pub execution_kind: String,
    /// The flow it belongs to; absent when it belongs to none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = "uuid", nullable = false)]
    pub flow_id: Option<FlowId>,
    /// What it is called there; absent when it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub node: Option<String>,
    /// Who created it.
    pub creator_identity: String,
    /// How urgent.
    pub priority: i32,
    /// Where it stands.
    #[schema(value_type = words::PublicState)]
    pub public_state: PublicState,
    /// What it waits for.
    #[schema(value_type = words::BlockingReason)]
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
    #[schema(value_type = Option<words::CancelledBy>)]
    pub cancelled_by: Option<CancelledBy>,
    /// Why it was cancelled or skipped, or why it expired or failed.
    pub ended_because: Option<String>,
    /// How far its worker says it is.
    pub progress: Option<Progress>,
    /// Attempts, retries, reclaims, replays.
    pub counts: Counts,
    /// Counts changes.
    pub version: u64,
    /// Created.
    #[schema(value_type = i64)]
    pub created_at: Millis,
    /// First claimed.
    #[schema(value_type = Option<i64>)]
    pub started_at: Option<Millis>,
    /// Ended.
    #[schema(value_type = Option<i64>)]
    pub completed_at: Option<Millis>,
    /// Expires for good.
    #[schema(value_type = Option<i64>)]
    pub deadline_at: Option<Millis>,
    /// Last changed.
    #[schema(value_type = i64)]
    pub last_mutation_at: Millis,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// The current attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptView {
    /// Counts from zero.
    pub index: u32,
    /// Why it was made.
    #[schema(value_type = words::AttemptKind)]
    pub kind: AttemptKind,
    /// Who runs it, or ran it last.
    pub worker: Worker,
    /// When it began.
    #[schema(value_type = i64)]
    pub started_at: Millis,
}

/// The current lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LeaseView {
    /// What its holder presents.
    pub fence: Fence,
    /// Who holds it.
    pub worker: Worker,
    /// Ends, unless renewed.
    #[schema(value_type = i64)]
    pub expires_at: Millis,
    /// Last sign of life.
    #[schema(value_type = i64)]
    pub last_heartbeat_at: Millis,
}

/// A worker process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Its pool.
    pub id: String,
    /// This incarnation.
    pub instance: String,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Failure {
    /// In words.
    pub reason: String,
    /// In the worker's vocabulary; retry policies select by it.
    pub category: String,
}

/// What a worker said about its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Percent done.
    pub percent: Option<u8>,
    /// In words.
    pub message: Option<String>,
    /// When.
    #[schema(value_type = i64)]
    pub at: Millis,
}

/// How often things happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counts {
    /// Attempts, the running one included.
    pub attempts: u32,
    /// Retries since the creation or the last replay.
    pub retries: u32,
    /// Leases lost in a row: since the creation, the last replay, or the last progress.
    pub reclaims: u32,
    /// Replays.
    pub replays: u32,
}

/// One line of the history of attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttemptLine {
    /// Counts from zero.
    pub index: u32,
    /// Why it was made.
    #[schema(value_type = words::AttemptKind)]
    pub kind: AttemptKind,
    /// Who runs it, or ran it last.
    pub worker: Worker,
    /// When it began.
    #[schema(value_type = i64)]
    pub started_at: Millis,
    /// When it ended; nothing while it runs.
    #[schema(value_type = Option<i64>)]
    pub ended_at: Option<Millis>,
    /// How it ended.
    #[schema(value_type = Option<words::AttemptOutcome>)]
    pub outcome: Option<AttemptOutcome>,
    /// Why it failed.
    pub failure: Option<Failure>,
}

/// Everything that happened to an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    /// Where it stands.
    pub snapshot: ExecutionSnapshot,
    /// Its attempts, oldest first, the current one included.
    pub attempts: Vec<AttemptLine>,
    /// What it has done, in order.
    pub steps: Vec<StepLine>,
    /// What happened, oldest first.
    pub events: Vec<FeedEvent>,
    /// Whether there is more than the first thousand of each.
    pub more: bool,
}

impl From<view::History> for History {
    fn from(history: view::History) -> Self {
        Self {
            snapshot: history.snapshot.into(),
            attempts: history.attempts.into_iter().map(AttemptLine::from).collect(),
            steps: history.steps.into_iter().map(StepLine::from).collect(),
            events: history.events.into_iter().map(FeedEvent::from).collect(),
            more: history.more,
        }
    }
}

impl From<view::ExecutionSnapshot> for ExecutionSnapshot {
    fn from(x: view::ExecutionSnapshot) -> Self {
        Self {
            execution_id: x.execution_id,
            namespace: x.namespace.into(),
            lane_id: x.lane_id.into(),
            execution_kind: x.execution_kind.into(),
            flow_id: x.flow_id,
            node: x.node.map(String::from),
            creator_identity: x.creator_identity.into(),
            priority: x.priority,
            public_state: x.public_state,
            blocking_reason: x.blocking_reason,
            blocking_detail: x.blocking_detail,
            current_attempt: x.current_attempt.map(AttemptView::from),
            current_lease: x.current_lease.map(LeaseView::from),
            failure: x.failure.map(Failure::from),
            cancelled_by: x.cancelled_by,
            ended_because: x.ended_because,
            progress: x.progress.map(Progress::from),
            counts: x.counts.into(),
            version: x.version,
            created_at: x.created_at,
            started_at: x.started_at,
            completed_at: x.completed_at,
            deadline_at: x.deadline_at,
            last_mutation_at: x.last_mutation_at,
            tags: x.tags,
        }
    }
}

impl From<view::AttemptView> for AttemptView {
    fn from(attempt: view::AttemptView) -> Self {
        let view::AttemptView { index, kind, worker, started_at } = attempt;
        Self { index, kind, worker: worker.into(), started_at }
    }
}

impl From<view::LeaseView> for LeaseView {
    fn from(lease: view::LeaseView) -> Self {
        let view::LeaseView { fence, worker, expires_at, last_heartbeat_at } = lease;
        Self { fence: fence.into(), worker: worker.into(), expires_at, last_heartbeat_at }
    }
}

impl From<execution::Worker> for Worker {
    fn from(worker: execution::Worker) -> Self {
        Self { id: worker.id.into(), instance: worker.instance.into() }
    }
}

impl From<execution::Failure> for Failure {
    fn from(failure: execution::Failure) -> Self {
        Self { reason: failure.reason, category: failure.category.into() }
    }
}

impl From<execution::Progress> for Progress {
    fn from(progress: execution::Progress) -> Self {
        let execution::Progress { percent, message, at } = progress;
        Self { percent, message, at }
    }
}

impl From<execution::Counts> for Counts {
    fn from(counts: execution::Counts) -> Self {
        let execution::Counts { attempts, retries, reclaims, replays } = counts;
        Self { attempts, retries, reclaims, replays }
    }
}

impl From<view::AttemptLine> for AttemptLine {
    fn from(line: view::AttemptLine) -> Self {
        let view::AttemptLine { attempt, ended_at, outcome, failure } = line;
        let AttemptView { index, kind, worker, started_at } = attempt.into();
        let failure = failure.map(Failure::from);
        Self { index, kind, worker, started_at, ended_at, outcome, failure }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ff_core::decide::create::Create;
    use ff_core::text::{Kind, LaneId, WorkerId, WorkerInstanceId};
    use uuid::Uuid;

    use super::*;

    fn viewed() -> view::ExecutionSnapshot {
        let id = ExecutionId::solo(Uuid::from_u128(7));
        let worker = execution::Worker {
            id: WorkerId::new("pool").unwrap(),
            instance: WorkerInstanceId::new("pool-1").unwrap(),
        };
        let create = Create::new(id, LaneId::new("lane").unwrap(), Kind::new("kind").unwrap());
        view::ExecutionSnapshot {
            execution_id: id,
            namespace: create.namespace,
            lane_id: create.lane,
            execution_kind: create.kind,
            flow_id: Some(FlowId(Uuid::from_u128(8))),
            node: Some("pay".parse().unwrap()),
            creator_identity: create.creator,
            priority: 7,
            public_state: PublicState::Active,
            blocking_reason: BlockingReason::None,
            blocking_detail: Some("why".to_owned()),
            current_attempt: Some(view::AttemptView {
                index: 1,
                kind: AttemptKind::Retry,
                worker: worker.clone(),
                started_at: Millis(4),
            }),
            current_lease: Some(view::LeaseView {
                fence: execution::Fence { attempt_index: 1, lease_epoch: 9 },
                worker,
                expires_at: Millis(9),
                last_heartbeat_at: Millis(8),
            }),
            failure: Some(execution::Failure {
                reason: "no".to_owned(),
                category: "net".parse().unwrap(),
            }),
            cancelled_by: Some(CancelledBy::Operator),
            ended_because: Some("so".to_owned()),
            progress: Some(execution::Progress { percent: Some(5), message: None, at: Millis(6) }),
            counts: execution::Counts { attempts: 2, retries: 1, reclaims: 0, replays: 0 },
            version: 4,
            created_at: Millis(1),
            started_at: Some(Millis(2)),
            completed_at: None,
            deadline_at: Some(Millis(11)),
            last_mutation_at: Millis(8),
            tags: [("shop.order".to_owned(), "7".to_owned())].into(),
        }
    }

    #[test]
    fn a_snapshot_is_written_as_the_engine_writes_it_and_reads_back() {
        let own = serde_json::to_value(viewed()).unwrap();
        let sent = ExecutionSnapshot::from(viewed());
        assert_eq!(serde_json::to_value(&sent).unwrap(), own);
        assert_eq!(serde_json::from_value::<ExecutionSnapshot>(own).unwrap(), sent);
    }
}
