//! Events: the append-only feed that is history, outbox and subscription in one.
//!
//! An event is written in the transaction that makes the change, and never updated. Every
//! terminal transition appends exactly one [`EventKind::Completion`].

mod cursor;

use serde::Serialize;

use crate::execution::{Execution, Failure, Tags, Worker};
use crate::ids::ExecutionId;
use crate::state::{TerminalOutcome, words};
use crate::text::{Kind, LaneId, Namespace};
use crate::time::Millis;

pub use cursor::{Cursor, CursorKind, Horizon, Window};

/// Something that happened to an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// To which.
    pub execution: ExecutionId,
    /// In which tenancy scope.
    pub namespace: Namespace,
    /// In which lane.
    pub lane: LaneId,
    /// When.
    pub at: Millis,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl Event {
    /// Something happens to `x` at `at`.
    pub fn new(x: &Execution, at: Millis, kind: EventKind) -> Self {
        Self {
            execution: x.id,
            namespace: x.spec.namespace.clone(),
            lane: x.spec.lane.clone(),
            at,
            kind,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// It ended.
    Completion {
        /// How.
        outcome: TerminalOutcome,
        /// The attempt that was under way.
        attempt_index: Option<u32>,
        /// Why, unless it succeeded.
        reason: Option<String>,
    },
    /// An attempt failed and another will follow.
    AttemptFailed {
        /// Which.
        attempt_index: u32,
        /// Why.
        failure: Failure,
        /// When the next one may begin.
        retry_at: Millis,
    },
    /// A lease ran out.
    LeaseExpired {
        /// The attempt it served.
        attempt_index: u32,
        /// Who held it.
        worker: Worker,
    },
    /// A lease was taken away.
    LeaseRevoked {
        /// The attempt it served.
        attempt_index: u32,
        /// Who held it.
        worker: Worker,
        /// Why.
        reason: String,
    },
    /// Another worker took over after a lost lease.
    LeaseReclaimed {
        /// The new attempt.
        attempt_index: u32,
        /// Who holds it now.
        worker: Worker,
    },
    /// An operator changed how urgent it is.
    PriorityChanged {
        /// Before.
        from: i32,
        /// After.
        to: i32,
    },
    /// An operator had it run again after it had ended.
    Replayed {
        /// How it had ended.
        outcome: TerminalOutcome,
        /// Why.
        reason: String,
    },
    /// An operator keeps it from being claimed.
    Held {
        /// Why.
        reason: String,
    },
    /// An operator let go.
    Unheld,
}

words! {
    /// The kind of an event, without its data.
    EventName {
        Completion = "completion",
        AttemptFailed = "attempt_failed",
        LeaseExpired = "lease_expired",
        LeaseRevoked = "lease_revoked",
        LeaseReclaimed = "lease_reclaimed",
        PriorityChanged = "priority_changed",
        Replayed = "replayed",
        Held = "held",
        Unheld = "unheld",
    }
}

impl EventKind {
    /// The kind without its data.
    pub fn name(&self) -> EventName {
        match self {
            Self::Completion { .. } => EventName::Completion,
            Self::AttemptFailed { .. } => EventName::AttemptFailed,
            Self::LeaseExpired { .. } => EventName::LeaseExpired,
            Self::LeaseRevoked { .. } => EventName::LeaseRevoked,
            Self::LeaseReclaimed { .. } => EventName::LeaseReclaimed,
            Self::PriorityChanged { .. } => EventName::PriorityChanged,
            Self::Replayed { .. } => EventName::Replayed,
            Self::Held { .. } => EventName::Held,
            Self::Unheld => EventName::Unheld,
        }
    }
}

/// An event with its place in the feed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FeedEvent {
    /// Resuming from here continues after it.
    pub cursor: Cursor,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
    /// What kind of work the execution is.
    pub execution_kind: Kind,
    /// The execution's tags.
    pub tags: Tags,
}

/// Which events a reader wants. Everything given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Any of these kinds; empty means all.
    pub kinds: Vec<EventName>,
    /// In this namespace.
    pub namespace: Option<Namespace>,
    /// In this lane.
    pub lane: Option<LaneId>,
    /// Of this execution.
    pub execution: Option<ExecutionId>,
    /// Of executions that carry this tag now.
    pub tag: Option<(String, String)>,
}
