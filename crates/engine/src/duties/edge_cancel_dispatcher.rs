//! Sibling cancellation: a group fired, and those of its upstreams that still run are cancelled.

use ff_core::backend::Duty;
use ff_core::command::{Outcome, Reply};
use ff_core::decide::sibling_cancel::SiblingsCancelled;
use ff_core::{Code, Interest, Rejection, StoreError, WorkFilter};

use super::{DutyPlan, Tally};
use crate::{Engine, Error};

pub const PLAN: DutyPlan = DutyPlan {
    duty: Some(Duty::EdgeCancelDispatcher),
    woken: Some(Interest::Cancels),
    batch: 50,
    tally: |reply| match reply {
        Reply::CancelSiblings(
            SiblingsCancelled::Dispatched { .. } | SiblingsCancelled::Orphaned,
        ) => Tally::Processed,
        _ => Tally::Skipped, // not ours: answers of other commands never come here
    },
    ..DutyPlan::USUAL
};

/// What a round of sibling cancellation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchReport {
    /// Groups whose siblings were cancelled.
    pub dispatched: u32,
    /// Rows without a group; they were taken away.
    pub orphaned: u32,
    /// Groups that say that they are done; the reconciler takes their rows away.
    pub skipped_for_reconciler: u32,
    /// Groups that somebody else held.
    pub skipped_locked: u32,
    /// Groups that failed; the log says which and why.
    pub errors: u32,
    /// Siblings that were cancelled.
    pub cancelled: u32,
    /// Siblings that go on, because a group that has not fired waits for them too.
    pub spared: u32,
    /// Siblings that had ended.
    pub already_terminal: u32,
    /// Siblings that were gone.
    pub not_found: u32,
}

impl DispatchReport {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Ok(Reply::CancelSiblings(reply)) => match *reply {
                SiblingsCancelled::Dispatched {
                    cancelled,
                    spared,
                    already_terminal,
                    not_found,
                } => {
                    self.dispatched += 1;
                    self.cancelled += cancelled;
                    self.spared += spared;
                    self.already_terminal += already_terminal;
                    self.not_found += not_found;
                }
                SiblingsCancelled::Orphaned => self.orphaned += 1,
                SiblingsCancelled::SkippedForReconciler => self.skipped_for_reconciler += 1,
                SiblingsCancelled::SkippedLocked => self.skipped_locked += 1,
                // Another process was faster.
                SiblingsCancelled::Gone => {}
            },
            Ok(_) | Err(_) => self.errors += 1, // not ours: a refusal
        }
    }
}

impl Engine {
    /// One round of sibling cancellation, for those who call duties themselves.
    pub async fn dispatcher_tick(&self, filter: &WorkFilter) -> Result<DispatchReport, Error> {
        let duty = Duty::EdgeCancelDispatcher;
        let due = self.backend.due(duty, filter, PLAN.batch).await?;
        let mut report = DispatchReport::default();
        if due.commands.is_empty() {
            return Ok(report);
        }
        let outcomes = match self.backend.apply(due.commands.clone()).await {
            Ok(outcomes) => outcomes,
            // Somebody else holds all of it, and it stays due.
            Err(StoreError::RetryExhausted { cause }) => {
                let refused = Rejection::new(Code::RetryExhausted, cause);
                vec![Err(refused); due.commands.len()]
            }
            Err(error) => return Err(error.into()),
        };
        for (command, outcome) in due.commands.iter().zip(&outcomes) {
            report.count(outcome);
            if let Err(error) = outcome {
                tracing::error!(?command, %error, "siblings could not be cancelled");
            }
        }
        Ok(report)
    }
}
