//! `ff flow`: graphs of executions. Submitting, listing, showing, cancelling, sealing and tagging
//! them.

mod list;
mod show;
mod steer;
mod submit;

use clap::Subcommand;
use ff_core::flow::{FlowWord, PublicFlowState};
use ff_core::state::PublicState;
use ff_wire::flow::FlowSummary;

use crate::output::style_of;
use crate::place::Place;

pub use show::Page;

/// Flows: graphs of executions.
#[derive(Subcommand)]
pub enum Flow {
    /// Create a whole graph of executions at once
    Submit(submit::Submit),
    /// List flows, newest first
    Ls(list::List),
    /// Show all about a flow: what its members are doing, drawn as a graph
    Show(show::Show),
    /// Cancel a flow, and what has not ended in it
    Cancel(steer::Cancel),
    /// Say that a flow is complete: it ends when all its members have
    Seal(steer::Seal),
    /// Set and remove tags of a flow
    Tag(steer::Tag),
}

impl Flow {
    /// Does it.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        match self {
            Self::Submit(submit) => submit.run(place).await,
            Self::Ls(list) => list.run(place).await,
            Self::Show(show) => show.run(place).await,
            Self::Cancel(cancel) => cancel.run(place).await,
            Self::Seal(seal) => seal.run(place).await,
            Self::Tag(tag) => tag.run(place).await,
        }
    }
}

/// The state of a flow in the colour that an execution in such a state has.
fn painted(state: FlowWord) -> String {
    let like = match state {
        FlowWord::Open => PublicState::Active,
        FlowWord::Completed => PublicState::Completed,
        FlowWord::Failed => PublicState::Failed,
        FlowWord::Cancelled => PublicState::Cancelled,
    };
    style_of(like).apply_to(state).to_string()
}

/// What the members of a flow make of it, in its colour.
fn painted_public(state: PublicFlowState) -> String {
    let like = match state {
        PublicFlowState::Open => PublicState::Waiting,
        PublicFlowState::Running => PublicState::Active,
        PublicFlowState::Blocked => PublicState::Delayed,
        PublicFlowState::Completed => PublicState::Completed,
        PublicFlowState::Failed => PublicState::Failed,
        PublicFlowState::Cancelled => PublicState::Cancelled,
    };
    style_of(like).apply_to(state).to_string()
}

/// How many members are in a state.
fn count_of(summary: &FlowSummary, state: PublicState) -> u64 {
    match state {
        PublicState::Waiting => summary.members_waiting,
        PublicState::Delayed => summary.members_delayed,
        PublicState::WaitingChildren => summary.members_waiting_children,
        PublicState::Active => summary.members_active,
        PublicState::Suspended => summary.members_suspended,
        PublicState::Completed => summary.members_completed,
        PublicState::Failed => summary.members_failed,
        PublicState::Cancelled => summary.members_cancelled,
        PublicState::Expired => summary.members_expired,
        PublicState::Skipped => summary.members_skipped,
    }
}

/// `3 completed, 1 skipped`, in colours.
pub fn counts(summary: &FlowSummary) -> String {
    let some = PublicState::ALL.iter().map(|state| (*state, count_of(summary, *state)));
    let some = some.filter(|(_, count)| *count > 0);
    let told = some.map(|(state, n)| style_of(state).apply_to(format!("{n} {state}")).to_string());
    told.collect::<Vec<_>>().join(", ")
}

/// How many members have not ended.
fn left_of(summary: &FlowSummary) -> u64 {
    let open = PublicState::ALL.iter().filter(|state| !state.is_terminal());
    open.map(|state| count_of(summary, *state)).sum()
}
