//! Events: the append-only feed that is history, outbox and subscription in one.
//!
//! An event is written in the transaction that makes the change, and never updated. Every
//! terminal transition appends exactly one [`EventKind::Completion`].

mod cursor;

use serde::Serialize;
use uuid::Uuid;

use crate::execution::{Execution, Failure, Tags, Worker};
use crate::flow::{CancellationPolicy, Flow, FlowWord};
use crate::ids::{ExecutionId, FlowId};
use crate::state::{TerminalOutcome, words};
use crate::suspension::{Effect, SuspensionReason};
use crate::text::{Kind, LaneId, Namespace, SignalName};
use crate::time::Millis;

pub use cursor::{Cursor, CursorKind, Horizon, Window};

/// Something that happened to an execution, or to a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// To which; nothing when it happened to a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
    /// The flow, or the flow of the execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowId>,
    /// In which tenancy scope.
    pub namespace: Namespace,
    /// In which lane; nothing when it happened to a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
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
            execution: Some(x.id),
            flow: x.flow(),
            namespace: x.spec.namespace.clone(),
            lane: Some(x.spec.lane.clone()),
            at,
            kind,
        }
    }

    /// Something happens to `flow` at `at`.
    pub fn of_flow(flow: &Flow, at: Millis, kind: EventKind) -> Self {
        Self {
            execution: None,
            flow: Some(flow.id),
            namespace: flow.spec.namespace.clone(),
            lane: None,
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
        /// When another worker may take over, if not at once.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_at: Option<Millis>,
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
    /// Its worker gave it back until something happens.
    Suspended {
        /// The attempt that is paused.
        attempt_index: u32,
        /// Why.
        reason: SuspensionReason,
    },
    /// A signal was accepted.
    Signal {
        /// Which.
        signal_id: Uuid,
        /// Where it arrived.
        waitpoint_id: Uuid,
        /// What it says.
        name: SignalName,
        /// Who sent it.
        source_identity: String,
        /// The digest of what its sender decided on.
        subject: Option<String>,
        /// What it led to.
        effect: Effect,
    },
    /// It goes on without a signal that it waited for.
    Resumed {
        /// Why.
        reason: String,
    },
    /// Nobody came in time: it waits for an operator now.
    Escalated,
    /// An operator keeps it from being claimed.
    Held {
        /// Why.
        reason: String,
    },
    /// An operator let go.
    Unheld,
    /// Somebody cancelled a flow.
    FlowCancelRequested {
        /// What was to become of its members.
        policy: CancellationPolicy,
        /// Why.
        reason: String,
        /// How many members that concerned.
        members: u32,
    },
    /// A flow ended by itself.
    FlowEnded {
        /// How.
        state: FlowWord,
    },
    /// A flow that had ended goes on, because a member was replayed.
    FlowReopened,
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
        Suspended = "suspended",
        Signal = "signal",
        Resumed = "resumed",
        Escalated = "escalated",
        Held = "held",
        Unheld = "unheld",
        FlowCancelRequested = "flow_cancel_requested",
        FlowEnded = "flow_ended",
        FlowReopened = "flow_reopened",
    }
}

impl Event {
    /// Whose history it belongs to: a flow's goes by the flow's UUID.
    pub fn subject(&self) -> ExecutionId {
        let flow = self.flow.map(|flow| ExecutionId::for_flow(flow, flow.0));
        self.execution.or(flow).expect("an event is of an execution or of a flow")
    }
}

impl EventKind {
    /// Whether it happens to a flow rather than to an execution.
    pub fn of_flow(&self) -> bool {
        match self {
            Self::FlowCancelRequested { .. } | Self::FlowEnded { .. } | Self::FlowReopened => true,
            Self::Completion { .. }
            | Self::AttemptFailed { .. }
            | Self::LeaseExpired { .. }
            | Self::LeaseRevoked { .. }
            | Self::LeaseReclaimed { .. }
            | Self::PriorityChanged { .. }
            | Self::Replayed { .. }
            | Self::Suspended { .. }
            | Self::Signal { .. }
            | Self::Resumed { .. }
            | Self::Escalated
            | Self::Held { .. }
            | Self::Unheld => false,
        }
    }

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
            Self::Suspended { .. } => EventName::Suspended,
            Self::Signal { .. } => EventName::Signal,
            Self::Resumed { .. } => EventName::Resumed,
            Self::Escalated => EventName::Escalated,
            Self::Held { .. } => EventName::Held,
            Self::Unheld => EventName::Unheld,
            Self::FlowCancelRequested { .. } => EventName::FlowCancelRequested,
            Self::FlowEnded { .. } => EventName::FlowEnded,
            Self::FlowReopened => EventName::FlowReopened,
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
    /// What kind of work the execution is; nothing when it happened to a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution_kind: Option<Kind>,
    /// The tags of the execution, or of the flow.
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
    /// Of this flow and of its members.
    pub flow: Option<FlowId>,
    /// Of executions that carry this tag now.
    pub tag: Option<(String, String)>,
}
