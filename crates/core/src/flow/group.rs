//! Groups: the edges into one execution, and what it takes to let it go.
//!
//! A group fires once. What comes after that moves its counters and nothing else. A running
//! execution may collect edges for its next wait: they form a new round of its group.

use serde::{Deserialize, Serialize};

use crate::error::{Code, Rejection};
use crate::flow::{Edge, EdgeState};
use crate::ids::{ExecutionId, FlowId};
use crate::limits::QUORUM_MAX;
use crate::state::{TerminalOutcome, words};
use crate::time::Millis;

/// The edges into one execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The flow.
    pub flow: FlowId,
    /// The execution that waits.
    pub downstream: ExecutionId,
    /// What it waits for.
    pub policy: EdgePolicy,
    /// Counts rounds: a running execution may wait more than once.
    pub round: u32,
    /// Edges staged into it in this round.
    pub staged: u32,
    /// Edges applied in this round, and how they were resolved.
    pub counters: Counters,
    /// Whether it fired.
    pub state: GroupState,
    /// What becomes of the upstreams that still ran when it fired.
    pub siblings: Option<Siblings>,
}

/// What a group waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum EdgePolicy {
    /// Every edge.
    #[default]
    AllOf,
    /// The first edge.
    AnyOf {
        /// What becomes of the others.
        #[serde(default)]
        on_satisfied: OnSatisfied,
        /// What becomes of what waits when none can be.
        #[serde(default, skip_serializing_if = "OnImpossible::is_default")]
        on_impossible: OnImpossible,
    },
    /// So many edges.
    Quorum {
        /// How many.
        k: u32,
        /// What becomes of the others.
        #[serde(default)]
        on_satisfied: OnSatisfied,
        /// What becomes of what waits when so many never can be.
        #[serde(default, skip_serializing_if = "OnImpossible::is_default")]
        on_impossible: OnImpossible,
    },
}

words! {
    /// What becomes of upstreams that still run when their group fires.
    OnSatisfied { CancelRemaining = "cancel_remaining", LetRun = "let_run" }
}

#[allow(clippy::derivable_impls, reason = "the words are made by a macro")]
impl Default for OnSatisfied {
    fn default() -> Self {
        Self::CancelRemaining
    }
}

words! {
    /// What becomes of what waits when its group can never be satisfied.
    OnImpossible { Skip = "skip", Run = "run" }
}

#[allow(clippy::derivable_impls, reason = "the words are made by a macro")]
impl Default for OnImpossible {
    fn default() -> Self {
        Self::Skip
    }
}

impl OnImpossible {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl EdgePolicy {
    /// Any one edge.
    pub fn any_of(on_satisfied: OnSatisfied) -> Self {
        Self::AnyOf { on_satisfied, on_impossible: OnImpossible::Skip }
    }

    /// `k` edges.
    pub fn quorum(k: u32, on_satisfied: OnSatisfied) -> Self {
        Self::Quorum { k, on_satisfied, on_impossible: OnImpossible::Skip }
    }

    /// What becomes of what waits when the group can never be satisfied.
    pub fn on_impossible(self) -> OnImpossible {
        match self {
            Self::AllOf => OnImpossible::Skip,
            Self::AnyOf { on_impossible, .. } | Self::Quorum { on_impossible, .. } => on_impossible,
        }
    }

    /// Refuses a quorum of none or of absurdly many.
    pub fn validate(self) -> Result<(), Rejection> {
        let refuse = |k: u32, why: String| Err(Rejection::invalid(Code::InvalidInput, "k", k, why));
        match self {
            Self::Quorum { k: 0, .. } => refuse(0, "must be >= 1".to_owned()),
            Self::Quorum { k, .. } if k > QUORUM_MAX => {
                refuse(k, format!("is more than {QUORUM_MAX}"))
            }
            Self::AllOf | Self::AnyOf { .. } | Self::Quorum { .. } => Ok(()),
        }
    }

    /// Whether upstreams that still run are cancelled when the group fires.
    pub fn cancels_remaining(self) -> bool {
        match self {
            Self::AllOf => false,
            Self::AnyOf { on_satisfied, .. } | Self::Quorum { on_satisfied, .. } => {
                on_satisfied == OnSatisfied::CancelRemaining
            }
        }
    }

    /// Whether upstreams that still run when the group fires are to run on, whatever others say. A group
    /// of all does not say.
    pub fn lets_run(self) -> bool {
        self != Self::AllOf && !self.cancels_remaining()
    }

    /// How many edges it takes, of `total`.
    pub fn target(self, total: u32) -> u32 {
        match self {
            Self::AllOf => total,
            Self::AnyOf { .. } => 1,
            Self::Quorum { k, .. } => k,
        }
    }
}

/// The edges of a group, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Applied.
    pub total: u32,
    /// Satisfied.
    pub satisfied: u32,
    /// Not satisfied by how their upstream ended.
    pub failed: u32,
    /// Not satisfied because their upstream was skipped.
    pub skipped: u32,
}

impl Counters {
    /// Those that are not resolved.
    pub fn running(self) -> u32 {
        self.total.saturating_sub(self.resolved())
    }

    /// Those that are.
    pub fn resolved(self) -> u32 {
        self.satisfied.saturating_add(self.failed).saturating_add(self.skipped)
    }

    /// The counter of an edge that was resolved so.
    pub fn counter(&mut self, satisfied: bool, outcome: TerminalOutcome) -> &mut u32 {
        match (satisfied, outcome) {
            (true, _) => &mut self.satisfied,
            (false, TerminalOutcome::Skipped) => &mut self.skipped,
            (
                false,
                TerminalOutcome::Success
                | TerminalOutcome::Failed
                | TerminalOutcome::Cancelled
                | TerminalOutcome::Expired,
            ) => &mut self.failed,
        }
    }
}

/// What the counters of a group mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Enough edges are satisfied.
    Satisfied,
    /// Enough never will be.
    Impossible,
    /// It is too early to tell.
    Pending,
}

impl EdgePolicy {
    /// Judges a group by its counters. Satisfied is tested first.
    pub fn judge(self, counters: Counters) -> Verdict {
        let Counters { total, satisfied, failed, skipped } = counters;
        let lost = failed.saturating_add(skipped);
        let (enough, hopeless) = match self {
            Self::AllOf => (total > 0 && satisfied == total, lost > 0),
            Self::AnyOf { .. } => (satisfied >= 1, total > 0 && lost >= total),
            Self::Quorum { k, .. } => {
                (satisfied >= k, u64::from(lost) + u64::from(k) > u64::from(total))
            }
        };
        match (enough, hopeless) {
            (true, _) => Verdict::Satisfied,
            (false, true) => Verdict::Impossible,
            (false, false) => Verdict::Pending,
        }
    }
}

/// Whether a group fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Not yet.
    Pending,
    /// Enough edges were satisfied.
    Satisfied {
        /// When.
        at: Millis,
    },
    /// Enough never could be.
    Impossible {
        /// When.
        at: Millis,
    },
}

words! {
    /// The state of a group, without its data. A pending group of a flow that was cancelled with all
    /// its members reads as cancelled.
    GroupWord {
        Pending = "pending", Satisfied = "satisfied", Impossible = "impossible",
        Cancelled = "cancelled",
    }
}

impl GroupState {
    /// The state column.
    pub fn word(self) -> GroupWord {
        match self {
            Self::Pending => GroupWord::Pending,
            Self::Satisfied { .. } => GroupWord::Satisfied,
            Self::Impossible { .. } => GroupWord::Impossible,
        }
    }

    /// When it fired.
    pub fn at(self) -> Option<Millis> {
        match self {
            Self::Pending => None,
            Self::Satisfied { at } | Self::Impossible { at } => Some(at),
        }
    }
}

/// What becomes of the upstreams that still ran when a group fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Siblings {
    /// Whether they are still to be cancelled.
    pub pending: bool,
    /// Why they are.
    pub reason: SiblingsReason,
    /// The round that fired.
    pub round: u32,
}

words! {
    /// Why the remaining upstreams of a group are cancelled.
    SiblingsReason {
        Satisfied = "sibling_quorum_satisfied", Impossible = "sibling_quorum_impossible",
    }
}

impl Group {
    /// A group without edges.
    pub fn new(flow: FlowId, downstream: ExecutionId, policy: EdgePolicy) -> Self {
        Self {
            flow,
            downstream,
            policy,
            round: 0,
            staged: 0,
            counters: Counters::default(),
            state: GroupState::Pending,
            siblings: None,
        }
    }

    /// How many upstreams run on although their siblings were cancelled. Cancelling resolved the edges
    /// of all others.
    pub fn spared(&self) -> u32 {
        let own = |siblings: &Siblings| !siblings.pending && siblings.round == self.round;
        self.siblings.filter(own).map_or(0, |_| self.counters.running())
    }

    /// Whether `edge` is not resolved and belongs to the round that is being cancelled.
    pub fn cancels(&self, edge: &Edge) -> bool {
        let unresolved = matches!(edge.state, EdgeState::Unsatisfied { .. });
        unresolved && self.siblings.is_some_and(|siblings| edge.round <= siblings.round)
    }
}
