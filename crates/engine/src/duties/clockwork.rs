//! When duties run: one look at the agenda every second calls those that have something to do.
//!
//! A duty that is called ticks at once, again while there is more, and then rests for its interval.
//! Some are also woken by what this process committed. However many duties there are, a store where
//! nothing happens is asked once a second.

use std::sync::Arc;
use std::time::Duration;

use ff_core::backend::{Agenda, WorkFilter};
use ff_core::{Backend, Interest};
use tokio::sync::watch;

use super::{DutyPlan, Report};

/// Between two looks at the agenda, when nothing is known to be due sooner.
const LOOK: Duration = Duration::from_secs(1);
/// The longest pause after repeated errors.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// Looks at the agenda for all duties of this process.
pub async fn look(
    backend: Arc<dyn Backend>,
    agenda: watch::Sender<Agenda>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut failures = 0;
    loop {
        let pause = match backend.agenda().await {
            Ok(seen) => {
                failures = 0;
                let next = seen.next().map(|next| Duration::from_millis(next.since(seen.now)));
                agenda.send_replace(seen);
                next.unwrap_or(LOOK).min(LOOK)
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(%error, failures, "the agenda cannot be read");
                backed_off(LOOK, failures)
            }
        };
        let stop = stopped.wait_for(|stop| *stop);
        if tokio::time::timeout(jittered(pause), stop).await.is_ok() {
            return;
        }
    }
}

/// Does one duty whenever it is called.
pub async fn serve(
    plan: DutyPlan,
    backend: Arc<dyn Backend>,
    filter: WorkFilter,
    mut agenda: watch::Receiver<Agenda>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut failures = 0;
    loop {
        let seen = plan.woken.map(|interest| (interest, backend.generation(interest)));
        agenda.mark_unchanged();
        let (pause, again) = match plan.tick(backend.as_ref(), &filter).await {
            Ok(report) => {
                failures = 0;
                // Whatever was done or filed anew is out of the way of what else is due.
                if has_more(&report) { (Duration::ZERO, true) } else { (plan.interval, false) }
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(duty = plan.name(), %error, failures, "a duty could not run");
                (backed_off(LOOK, failures), true)
            }
        };
        let rested = async {
            tokio::time::sleep(jittered(pause)).await;
            if !again {
                called(&plan, &mut agenda).await;
            }
        };
        tokio::select! {
            _ = stopped.wait_for(|stop| *stop) => return,
            () = rested => {}
            () = news(backend.as_ref(), seen), if failures == 0 => {}
        }
    }
}

fn has_more(report: &Report) -> bool {
    report.more && report.processed + report.refiled > 0
}

/// Waits until the agenda has something for a duty.
async fn called(plan: &DutyPlan, agenda: &mut watch::Receiver<Agenda>) {
    let Some(duty) = plan.duty else { return };
    loop {
        if agenda.changed().await.is_err() {
            // Nobody looks any more: the duties are being stopped.
            return std::future::pending().await;
        }
        if agenda.borrow_and_update().calls(duty) {
            return;
        }
    }
}

/// Waits for what else calls for a tick.
async fn news(backend: &dyn Backend, seen: Option<(Interest, u64)>) {
    match seen {
        Some((interest, seen)) => backend.wait(interest, seen).await,
        None => std::future::pending().await,
    }
}

fn backed_off(pause: Duration, failures: u32) -> Duration {
    pause.saturating_mul(1 << failures.min(10)).min(BACKOFF_MAX)
}

/// Spread by a tenth, so that processes started together do not tick together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.9..=1.1))
}
