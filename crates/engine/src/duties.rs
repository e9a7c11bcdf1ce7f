//! Duties: what the engine does by itself, in bounded ticks, in any number of processes.
//!
//! A tick asks the store what is due and sends the commands that check and do it. Every command
//! looks at the row again under the store's lock, so two processes that find the same row due
//! do it once. When they do is the business of the [`clockwork`].

mod clockwork;
mod edge_cancel_dispatcher;
mod lease_expiry;
mod promotion;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use ff_core::backend::{Agenda, Duty, WorkFilter};
use ff_core::command::{Command, Outcome, Reply};
use ff_core::decide::dispatch::Dispatched;
use ff_core::decide::sibling_reconcile::SiblingsReconciled;
use ff_core::{Backend, Code, Interest, Millis, StoreError};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use edge_cancel_dispatcher::DispatchReport;

use crate::{Engine, Error};

/// How a duty is done.
#[derive(Clone, Copy, Debug)]
pub struct DutyPlan {
    /// Which; nothing for promotion, which is part of claiming.
    pub duty: Option<Duty>,
    /// The least between two ticks, unless there is more.
    pub interval: Duration,
    /// What else calls for a tick at once.
    pub woken: Option<Interest>,
    /// Checked in one tick at most.
    pub batch: u32,
    /// What an answer counts as.
    tally: fn(&Reply) -> Tally,
}

impl DutyPlan {
    /// A duty that is called when something is due, and by nothing else.
    const USUAL: Self = Self {
        duty: None,
        interval: Duration::ZERO,
        woken: None,
        batch: 500,
        tally: |_| Tally::Skipped,
    };
}

/// What a checked item counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tally {
    /// It was done.
    Processed,
    /// It is filed for later.
    Refiled,
    /// There was nothing to do.
    Skipped,
}

impl Tally {
    fn of(done: bool) -> Self {
        if done { Self::Processed } else { Self::Skipped }
    }
}

/// What a tick did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Something was done.
    pub processed: u32,
    /// It was found to be due later and is filed for then: a renewed lease.
    pub refiled: u32,
    /// There was nothing to do after all: ended or done elsewhere meanwhile.
    pub skipped: u32,
    /// It failed; the log says which and why.
    pub errors: u32,
    /// The batch was full: there is probably more.
    pub more: bool,
    /// When the next one will be due, if that is known.
    pub next: Option<Millis>,
}

impl DutyPlan {
    /// Every duty. Those that need more code than this are in modules of their own.
    pub const ALL: [Self; 13] = [
        promotion::PLAN,
        lease_expiry::PLAN,
        // An attempt that took too long fails, and may be retried.
        Self {
            duty: Some(Duty::AttemptTimeout),
            tally: |reply| Tally::of(matches!(reply, Reply::TimeOutAttempt(Some(_)))),
            ..Self::USUAL
        },
        // An execution that took too long as a whole expires.
        Self {
            duty: Some(Duty::Deadline),
            tally: |reply| Tally::of(matches!(reply, Reply::ExpireExecution(true))),
            ..Self::USUAL
        },
        // No signal ended a suspension in time: what was to happen then happens.
        Self {
            duty: Some(Duty::SuspensionTimeout),
            tally: |reply| Tally::of(matches!(reply, Reply::TimeOutSuspension(Some(_)))),
            ..Self::USUAL
        },
        // No execution suspended on a waitpoint in time, so nothing more arrives there.
        Self {
            duty: Some(Duty::WaitpointExpiry),
            tally: |reply| Tally::of(matches!(reply, Reply::ExpireWaitpoint(true))),
            ..Self::USUAL
        },
        // Idempotency keys are forgotten when their window has passed.
        Self {
            duty: Some(Duty::IdempotencyExpiry),
            interval: Duration::from_mins(1),
            tally: |reply| Tally::of(matches!(reply, Reply::ForgetKey(true))),
            ..Self::USUAL
        },
        retention::PLAN,
        // Flows learn which of their members have ended. The process that ends a member is woken at
        // once; others find what it left behind.
        Self {
            duty: Some(Duty::CompletionDispatch),
            woken: Some(Interest::Flows),
            batch: 200,
            tally: |reply| {
                Tally::of(matches!(reply, Reply::DispatchCompletion(Dispatched::Advanced(_))))
            },
            ..Self::USUAL
        },
        edge_cancel_dispatcher::PLAN,
        // Rows that are left over of sibling cancellation are taken away.
        Self {
            duty: Some(Duty::EdgeCancelReconciler),
            interval: Duration::from_secs(10),
            batch: 50,
            tally: |reply| {
                let Reply::ReconcileSiblings(done) = reply else { return Tally::Skipped };
                let swept = [SiblingsReconciled::SremmedStale, SiblingsReconciled::CompletedDrain];
                Tally::of(swept.contains(done))
            },
            ..Self::USUAL
        },
        // Members that a large cancelled flow still owes are ended, piece by piece.
        Self {
            duty: Some(Duty::CancelBacklog),
            woken: Some(Interest::Cancels),
            // Each ends a thousand members: the fewer in one transaction, the shorter it holds its
            // rows.
            batch: 1,
            tally: |reply| Tally::of(matches!(reply, Reply::CancelOwed(_))),
            ..Self::USUAL
        },
        // Groups that wait for something that has ended are put right.
        Self {
            duty: Some(Duty::DependencyReconciler),
            interval: Duration::from_secs(15),
            batch: 100,
            tally: |reply| Tally::of(matches!(reply, Reply::ReconcileGroup(1..))),
            ..Self::USUAL
        },
    ];

    /// The plan of a duty.
    pub fn of(duty: Duty) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|plan| plan.duty == Some(duty)).expect("every duty has a plan")
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        self.duty.map_or("promotion", Duty::as_str)
    }

    /// One bounded round over the work that `filter` selects.
    pub async fn tick(
        &self,
        backend: &dyn Backend,
        filter: &WorkFilter,
    ) -> Result<Report, StoreError> {
        let Some(duty) = self.duty else { return promotion::tick(backend).await };
        let due = backend.due(duty, filter, self.batch).await?;
        let found = u32::try_from(due.commands.len()).unwrap_or(u32::MAX);
        let mut report = Report { more: found >= self.batch, next: due.next, ..Report::default() };
        if found == 0 {
            return Ok(report);
        }
        match backend.apply(due.commands.clone()).await {
            Ok(outcomes) => self.count(&due.commands, outcomes, &mut report),
            // Somebody else holds all of it, and it stays due: that is no reason to pause.
            Err(error @ StoreError::RetryExhausted { .. }) => {
                report.errors = found;
                tracing::error!(duty = self.name(), found, %error, "a duty failed on all items");
            }
            Err(error) => return Err(error),
        }
        Ok(report)
    }

    fn count(&self, commands: &[Command], outcomes: Vec<Outcome>, report: &mut Report) {
        for (command, outcome) in commands.iter().zip(outcomes) {
            match outcome {
                Ok(reply) => match (self.tally)(&reply) {
                    Tally::Processed => report.processed += 1,
                    Tally::Refiled => report.refiled += 1,
                    Tally::Skipped => report.skipped += 1,
                },
                // Retention was faster: there is nothing left to look after.
                Err(gone) if gone.code == Code::ExecutionNotFound => report.skipped += 1,
                Err(rejection) => self.failed(command, &rejection, report),
            }
        }
    }

    fn failed(&self, command: &Command, error: &dyn std::fmt::Display, report: &mut Report) {
        report.errors += 1;
        tracing::error!(duty = self.name(), ?command, %error, "a duty failed on one item");
    }
}

impl Engine {
    /// One round of a duty, for those who call duties themselves.
    pub async fn scan_tick(&self, duty: Duty, filter: &WorkFilter) -> Result<Report, Error> {
        Ok(DutyPlan::of(duty).tick(self.backend.as_ref(), filter).await?)
    }

    /// Moves delayed executions whose time has come to their queues.
    pub async fn promote_delayed(&self) -> Result<Report, Error> {
        Ok(promotion::PLAN.tick(self.backend.as_ref(), &WorkFilter::default()).await?)
    }

    /// Starts every duty in this process.
    pub fn start_duties(&self, filter: &WorkFilter) -> Duties {
        let (stop, stopped) = watch::channel(false);
        let mut loops = JoinSet::new();
        let (agenda, seen) = watch::channel(Agenda::default());
        for plan in DutyPlan::ALL {
            let (backend, filter) = (Arc::clone(&self.backend), filter.clone());
            loops.spawn(clockwork::serve(plan, backend, filter, seen.clone(), stopped.clone()));
        }
        loops.spawn(clockwork::look(Arc::clone(&self.backend), agenda, stopped));
        Duties { stop, loops }
    }
}

/// Running duties. Dropping it stops them where they are; [`Duties::stop`] lets ticks finish.
pub struct Duties {
    stop: watch::Sender<bool>,
    loops: JoinSet<()>,
}

impl Duties {
    /// Stops after the ticks under way.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.loops.join_next().await.is_some() {}
    }
}
