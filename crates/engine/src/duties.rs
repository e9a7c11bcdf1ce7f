//! Duties: what the engine does by itself, in bounded ticks, in any number of processes.
//!
//! A tick asks the store what is due and sends the commands that check and do it. Every command
//! looks at the row again under the store's lock, so two processes that find the same row due
//! do it once. One loop serves all duties: interval, jitter, sooner when something is known to
//! be due sooner, at once while there is more, back-off on errors, and shutdown.

mod attempt_timeout;
mod cancel_backlog;
mod completion_dispatch;
mod deadline;
mod dependency_reconciler;
mod edge_cancel_dispatcher;
mod edge_cancel_reconciler;
mod idempotency_expiry;
mod lease_expiry;
mod promotion;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Outcome, Reply};
use ff_core::{Backend, Code, Interest, Millis, StoreError};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use edge_cancel_dispatcher::DispatchReport;

use crate::{Engine, Error};

/// How a duty is done.
#[derive(Clone, Copy, Debug)]
pub struct DutyPlan {
    /// What it is called.
    pub name: &'static str,
    /// Which; nothing for promotion, which is part of claiming.
    pub duty: Option<Duty>,
    /// Between two ticks, when nothing is known to be due sooner.
    pub interval: Duration,
    /// What else calls for a tick at once.
    pub woken: Option<Interest>,
    /// Checked in one tick at most.
    pub batch: u32,
    /// What an answer counts as.
    tally: fn(&Reply) -> Tally,
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
    /// Every duty.
    pub const ALL: [Self; 11] = [
        promotion::PLAN,
        lease_expiry::PLAN,
        attempt_timeout::PLAN,
        deadline::PLAN,
        idempotency_expiry::PLAN,
        retention::PLAN,
        completion_dispatch::PLAN,
        edge_cancel_dispatcher::PLAN,
        edge_cancel_reconciler::PLAN,
        cancel_backlog::PLAN,
        dependency_reconciler::PLAN,
    ];

    /// The plan of a duty.
    pub fn of(duty: Duty) -> Self {
        match duty {
            Duty::LeaseExpiry => lease_expiry::PLAN,
            Duty::AttemptTimeout => attempt_timeout::PLAN,
            Duty::Deadline => deadline::PLAN,
            Duty::IdempotencyExpiry => idempotency_expiry::PLAN,
            Duty::Retention => retention::PLAN,
            Duty::CompletionDispatch => completion_dispatch::PLAN,
            Duty::EdgeCancelDispatcher => edge_cancel_dispatcher::PLAN,
            Duty::EdgeCancelReconciler => edge_cancel_reconciler::PLAN,
            Duty::CancelBacklog => cancel_backlog::PLAN,
            Duty::DependencyReconciler => dependency_reconciler::PLAN,
        }
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
        let outcomes = backend.apply(due.commands.clone()).await?;
        self.count(&due.commands, outcomes, &mut report);
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
        tracing::error!(duty = self.name, ?command, %error, "a duty failed on one item");
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
        for plan in DutyPlan::ALL {
            let (backend, filter) = (Arc::clone(&self.backend), filter.clone());
            loops.spawn(repeat(plan, backend, filter, stopped.clone()));
        }
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

/// The longest pause after repeated errors.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

async fn repeat(
    plan: DutyPlan,
    backend: Arc<dyn Backend>,
    filter: WorkFilter,
    mut stopped: watch::Receiver<bool>,
) {
    let mut failures = 0;
    loop {
        let seen = plan.woken.map(|interest| (interest, backend.generation(interest)));
        let pause = match plan.tick(backend.as_ref(), &filter).await {
            Ok(report) => {
                failures = 0;
                pause_after(&plan, &report, backend.as_ref()).await
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(duty = plan.name, %error, failures, "a duty could not run");
                plan.interval.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX)
            }
        };
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(jittered(pause)) => {}
            () = news(backend.as_ref(), seen), if failures == 0 => {}
        }
    }
}

async fn news(backend: &dyn Backend, seen: Option<(Interest, u64)>) {
    match seen {
        Some((interest, seen)) => backend.wait(interest, seen).await,
        None => std::future::pending().await,
    }
}

async fn pause_after(plan: &DutyPlan, report: &Report, backend: &dyn Backend) -> Duration {
    // Whatever was done or filed anew is out of the way of what else is due.
    if report.more && report.processed + report.refiled > 0 {
        return Duration::ZERO;
    }
    let Some(next) = report.next else { return plan.interval };
    let now = backend.now().await.unwrap_or(next);
    plan.interval.min(Duration::from_millis(next.since(now)))
}

/// Spread by a tenth, so that processes started together do not tick together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.9..=1.1))
}
