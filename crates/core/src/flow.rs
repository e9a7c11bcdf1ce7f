//! Flows: executions that depend on each other, as one directed graph without cycles.
//!
//! * A flow lives in one partition, with all its members, edges and groups.
//! * Whoever changes the graph, or counts on it not changing, holds the flow's row.
//! * A member that ended is counted once, when its end is *dispatched*; a flow ends when it is
//!   sealed and all its members are counted.
//! * The summary of a flow is computed when it is asked for. It is never stored, so it is never late.

mod edge;
mod graph;
mod group;

use serde::Serialize;

use crate::execution::{CancelledBy, Ending, Fingerprint, Next, State, Tags};
use crate::ids::{ExecutionId, FlowId};
use crate::state::{Phase, PublicState, words};
use crate::text::{Creator, FlowKind, IdempotencyKey, Namespace, NodeName};
use crate::time::Millis;

pub use edge::{DependencyKind, Edge, EdgeState, EdgeWord, Reach};
pub use graph::{Graph, Link, Node, NodeRef};
pub(crate) use graph::{check_reference, circle, second_input};
pub use group::{
    Counters, EdgePolicy, Group, GroupState, GroupWord, OnImpossible, OnSatisfied, Siblings,
    SiblingsReason, Verdict,
};

/// A graph of executions.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its id.
    pub id: FlowId,
    /// Counts changes.
    pub version: u64,
    /// What was fixed at creation.
    pub spec: FlowSpec,
    /// Counts members and edges added; a caller may insist on the one it saw.
    pub revision: u64,
    /// Members ever added.
    pub nodes: u32,
    /// Edges ever staged.
    pub edges: u32,
    /// Members that ended and were counted.
    pub ended: Ended,
    /// Whether no more members come, except from running ones.
    pub sealed: bool,
    /// Its tags.
    pub tags: Tags,
    /// Last change.
    pub updated_at: Millis,
    /// The latest time until which one of its counted members is kept.
    pub retain_until: Millis,
    /// Where it stands.
    pub state: FlowState,
}

/// What was fixed when a flow was created.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Tenancy scope; its members have the same.
    pub namespace: Namespace,
    /// What its author calls this sort of flow; never interpreted.
    pub kind: FlowKind,
    /// Who created it.
    pub creator: Creator,
    /// The key it was submitted under.
    pub idempotency_key: Option<IdempotencyKey>,
    /// What the creation said, for telling a repeat from a clash.
    pub fingerprint: Fingerprint,
    /// When.
    pub created_at: Millis,
}

/// How many members ended, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Successfully, skipped, or cancelled by the engine because nobody needed them any more.
    pub well: u32,
    /// Failed, expired, or cancelled by somebody.
    pub badly: u32,
}

impl Ended {
    /// All of them.
    pub fn total(self) -> u32 {
        self.well + self.badly
    }

    /// The counter that a member with this ending belongs to.
    pub fn counter(&mut self, ending: &Ending) -> &mut u32 {
        match ending {
            Ending::Success { .. }
            | Ending::Skipped { .. }
            | Ending::Cancelled { by: CancelledBy::Engine, .. } => &mut self.well,
            Ending::Failed(_)
            | Ending::Expired { .. }
            | Ending::Cancelled {
                by:
                    CancelledBy::Worker
                    | CancelledBy::Operator
                    | CancelledBy::CancelFlow
                    | CancelledBy::SystemTimeout,
                ..
            } => &mut self.badly,
        }
    }
}

/// Where a flow stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// Its members are at work, or more may come.
    Open,
    /// It is sealed and all its members ended well.
    Completed {
        /// When.
        at: Millis,
    },
    /// It is sealed, all its members ended, and some badly.
    Failed {
        /// When.
        at: Millis,
    },
    /// Somebody cancelled it.
    Cancelled {
        /// When.
        at: Millis,
        /// What was to become of its members.
        policy: CancellationPolicy,
        /// Why.
        reason: String,
    },
}

words! {
    /// The state of a flow, without its data.
    FlowWord {
        Open = "open", Completed = "completed", Failed = "failed", Cancelled = "cancelled",
    }
}

words! {
    /// Where a flow stands, for a person: what its members are doing while it is open.
    PublicFlowState {
        Open = "open", Running = "running", Blocked = "blocked", Completed = "completed",
        Failed = "failed", Cancelled = "cancelled",
    }
}

words! {
    /// What becomes of the members of a cancelled flow.
    CancellationPolicy {
        FlowOnly = "cancel_flow_only", All = "cancel_all", Pending = "cancel_pending",
    }
}

impl CancellationPolicy {
    /// Whether it ends members that `other` lets go on.
    pub fn exceeds(self, other: Self) -> bool {
        match (self, other) {
            (Self::All, Self::Pending | Self::FlowOnly) | (Self::Pending, Self::FlowOnly) => true,
            (Self::FlowOnly, _) | (Self::Pending, Self::Pending) | (_, Self::All) => false,
        }
    }

    /// Whether it ends a member in this state. An attempt that is under way goes on with
    /// `cancel_pending`, also while it sleeps or waits for a signal, a resume or children.
    pub fn ends(self, state: &State) -> bool {
        let between_attempts = match state {
            State::Terminal(_) => return false,
            State::Active(_) | State::Suspended(_) => false,
            State::Runnable(runnable) => match &runnable.next {
                Next::First | Next::Retry(_) | Next::Reclaim | Next::Replay => true,
                Next::Resume(_) => false,
            },
        };
        match self {
            Self::FlowOnly => false,
            Self::Pending => between_attempts,
            Self::All => true,
        }
    }

    /// Whether it may end a member in this phase.
    pub fn may_end(self, phase: Phase) -> bool {
        match (self, phase) {
            (Self::FlowOnly, _)
            | (_, Phase::Terminal)
            | (Self::Pending, Phase::Active | Phase::Suspended) => false,
            (Self::All, Phase::Runnable | Phase::Active | Phase::Suspended)
            | (Self::Pending, Phase::Runnable) => true,
        }
    }
}

impl FlowState {
    /// The state column.
    pub fn word(&self) -> FlowWord {
        match self {
            Self::Open => FlowWord::Open,
            Self::Completed { .. } => FlowWord::Completed,
            Self::Failed { .. } => FlowWord::Failed,
            Self::Cancelled { .. } => FlowWord::Cancelled,
        }
    }

    /// When it ended.
    pub fn ended_at(&self) -> Option<Millis> {
        match self {
            Self::Open => None,
            Self::Completed { at } | Self::Failed { at } | Self::Cancelled { at, .. } => Some(*at),
        }
    }
}

impl Flow {
    /// Whether nothing can be added to it any more.
    pub fn is_terminal(&self) -> bool {
        self.state.ended_at().is_some()
    }

    /// Whether it was cancelled with all its members, or was cancelled and they all ended since: every
    /// edge that was not resolved is impossible, and every group that had not fired is cancelled.
    pub fn is_closed(&self) -> bool {
        match &self.state {
            FlowState::Cancelled { policy: CancellationPolicy::All, .. } => true,
            FlowState::Cancelled {
                policy: CancellationPolicy::Pending | CancellationPolicy::FlowOnly,
                ..
            } => self.ended.total() == self.nodes,
            FlowState::Open | FlowState::Completed { .. } | FlowState::Failed { .. } => false,
        }
    }

    /// When it may be removed with everything in it: it ended, all its members are counted, and the
    /// time of the last of them is up.
    pub fn trim_at(&self) -> Option<Millis> {
        let ended_at = self.state.ended_at()?;
        (self.ended.total() == self.nodes).then_some(self.retain_until.max(ended_at))
    }
}

/// The flow that an execution belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which.
    pub flow: FlowId,
    /// What it is called there, if it was submitted under a name.
    pub node: Option<NodeName>,
}

/// A member ended and its flow does not know yet. Removed in the transaction that tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dispatch {
    /// When it ended.
    pub at: Millis,
    /// The flow.
    pub flow: FlowId,
    /// The member.
    pub execution: ExecutionId,
}

/// A group fired and those of its upstreams that still run are to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingCancel {
    /// When it fired.
    pub enqueued_at: Millis,
    /// The flow.
    pub flow: FlowId,
    /// The execution whose group it is.
    pub downstream: ExecutionId,
}

/// A cancelled flow has more members than one transaction may cancel: the rest is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The flow.
    pub flow: FlowId,
    /// When it was cancelled.
    pub requested_at: Millis,
}

/// How many members of a flow are in each public state, and how many its joins spared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// By state.
    pub members: std::collections::BTreeMap<PublicState, u64>,
    /// The sum of what each group spared ([`Group::spared`]).
    pub spared: u64,
}

impl Buckets {
    /// How many are in `state`.
    pub fn of(&self, state: PublicState) -> u64 {
        self.members.get(&state).copied().unwrap_or(0)
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.members.values().sum()
    }

    /// What the members of a flow make of it while it is open.
    pub fn state(&self, flow: &Flow) -> PublicFlowState {
        match &flow.state {
            FlowState::Completed { .. } => return PublicFlowState::Completed,
            FlowState::Failed { .. } => return PublicFlowState::Failed,
            FlowState::Cancelled { .. } => return PublicFlowState::Cancelled,
            FlowState::Open => {}
        }
        let ended: u64 = self.members.iter().filter(|(s, _)| s.is_terminal()).map(|(_, n)| n).sum();
        let bad = [PublicState::Failed, PublicState::Cancelled, PublicState::Expired];
        if self.total() > 0 && ended == self.total() {
            // Stragglers that the engine cancelled are counted apart, once they are dispatched.
            let all_counted = u64::from(flow.ended.total()) == self.total();
            let badly = if all_counted {
                flow.ended.badly > 0
            } else {
                bad.iter().any(|state| self.of(*state) > 0)
            };
            return if badly { PublicFlowState::Failed } else { PublicFlowState::Completed };
        }
        if self.of(PublicState::Active) > 0 {
            return PublicFlowState::Running;
        }
        let blocked = [PublicState::Suspended, PublicState::Delayed, PublicState::WaitingChildren];
        if blocked.iter().any(|state| self.of(*state) > 0) {
            return PublicFlowState::Blocked;
        }
        PublicFlowState::Open
    }
}
