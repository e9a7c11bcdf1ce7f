//! Edges: one execution waits for the end of another.

use std::collections::BTreeSet;

use crate::ids::{EdgeId, ExecutionId, FlowId};
use crate::state::{TerminalOutcome, words};
use crate::text::EdgeName;
use crate::time::Millis;

/// One execution waits for the end of another. Nothing but its state ever changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Its id.
    pub id: EdgeId,
    /// The flow.
    pub flow: FlowId,
    /// What is waited for.
    pub upstream: ExecutionId,
    /// What waits.
    pub downstream: ExecutionId,
    /// Which ends satisfy it.
    pub kind: DependencyKind,
    /// Under which name the downstream reads the result of the upstream.
    pub name: Option<EdgeName>,
    /// Any text asks that the result of the upstream become the input of the downstream.
    pub data_passing_ref: Option<String>,
    /// The round of its group that it belongs to.
    pub round: u32,
    /// When it was staged.
    pub created_at: Millis,
    /// Whether it holds the downstream back.
    pub state: EdgeState,
}

words! {
    /// Which ends of the upstream satisfy an edge.
    DependencyKind {
        SuccessOnly = "success_only", AnyTerminal = "any_terminal", FailureOnly = "failure_only",
    }
}

impl DependencyKind {
    /// Whether an upstream that ended so lets the downstream go on. A skipped upstream did not run:
    /// it neither succeeded nor failed.
    pub fn satisfied_by(self, outcome: TerminalOutcome) -> bool {
        match (self, outcome) {
            (Self::AnyTerminal, _)
            | (Self::SuccessOnly, TerminalOutcome::Success)
            | (
                Self::FailureOnly,
                TerminalOutcome::Failed | TerminalOutcome::Cancelled | TerminalOutcome::Expired,
            ) => true,
            (
                Self::SuccessOnly,
                TerminalOutcome::Failed
                | TerminalOutcome::Cancelled
                | TerminalOutcome::Expired
                | TerminalOutcome::Skipped,
            )
            | (Self::FailureOnly, TerminalOutcome::Success | TerminalOutcome::Skipped) => false,
        }
    }
}

/// Whether an edge holds its downstream back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeState {
    /// Written down; it holds nothing back yet.
    Staged,
    /// The downstream waits for it.
    Unsatisfied {
        /// Since when.
        applied_at: Millis,
    },
    /// The upstream ended as it should.
    Satisfied {
        /// When it was applied.
        applied_at: Millis,
        /// When it was resolved.
        at: Millis,
    },
    /// The upstream ended otherwise.
    Impossible {
        /// When it was applied.
        applied_at: Millis,
        /// When it was resolved.
        at: Millis,
    },
}

words! {
    /// The state of an edge, without its data.
    EdgeWord {
        Staged = "staged", Unsatisfied = "unsatisfied", Satisfied = "satisfied",
        Impossible = "impossible",
    }
}

impl EdgeState {
    /// The state column.
    pub fn word(self) -> EdgeWord {
        match self {
            Self::Staged => EdgeWord::Staged,
            Self::Unsatisfied { .. } => EdgeWord::Unsatisfied,
            Self::Satisfied { .. } => EdgeWord::Satisfied,
            Self::Impossible { .. } => EdgeWord::Impossible,
        }
    }

    /// When it was applied and when it was resolved.
    pub fn times(self) -> (Option<Millis>, Option<Millis>) {
        match self {
            Self::Staged => (None, None),
            Self::Unsatisfied { applied_at } => (Some(applied_at), None),
            Self::Satisfied { applied_at, at } | Self::Impossible { applied_at, at } => {
                (Some(applied_at), Some(at))
            }
        }
    }
}

/// What can be reached from an execution along the edges of its flow, itself left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// These.
    All(BTreeSet<ExecutionId>),
    /// More than anybody looks at.
    TooMany,
}
