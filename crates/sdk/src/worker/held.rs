//! What a worker holds, and the one loop that keeps its leases.
//!
//! Each lease has a timer of its own that needs no answer from the store: when it runs out, the handler is
//! stopped, whatever became of the renewals. What must stay true: at most one handler of this worker runs
//! for an execution, and however it ends, its place is free again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ff_core::decide::renew::Renew;
use ff_core::limits::BATCH_MAX;
use ff_core::{ExecutionId, Fence};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Crew;
use crate::fabric::Work;

/// How much sooner than the store a worker takes a lease for over: this part of it.
const MARGIN: u32 = 10;
/// The least between two renewals that are made because a lease was taken away.
const ALERTS: Duration = Duration::from_millis(50);

/// Executions that a worker holds.
#[derive(Default)]
pub struct Held(Mutex<HashMap<ExecutionId, Arc<Lease>>>);

/// One of them.
pub struct Lease {
    id: ExecutionId,
    fence: Fence,
    /// Until when the worker may act on it, by its own clock.
    until: Mutex<Instant>,
    /// It is held no longer, or must not be written for.
    pub lost: CancellationToken,
    /// Its handler has ended.
    ended: CancellationToken,
    /// The handler of the lease before it, under which this worker held the same execution.
    before: Option<CancellationToken>,
}

impl Lease {
    /// Waits until the handler of an earlier lease of the same execution has ended.
    pub async fn turn(&self) {
        if let Some(before) = &self.before {
            before.cancelled().await;
        }
    }

    /// Waits until it has run out by the worker's own clock, however often it is renewed meanwhile.
    pub async fn run_out(&self) {
        loop {
            let until = *self.until.lock().expect("no holder of this lock panics");
            if until <= Instant::now() {
                return tracing::warn!(id = %self.id, "its lease could not be renewed in time");
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// A lease while there is a task for it. However that ends, the execution is held no longer.
pub struct Kept {
    crew: Arc<Crew>,
    /// The lease.
    pub lease: Arc<Lease>,
}

impl Kept {
    /// Holds an execution for a task.
    pub fn new(crew: Arc<Crew>, work: &Work) -> Self {
        let lease = crew.held.hold(work.id, work.fence, until(Instant::now(), work.lease_left));
        Self { crew, lease }
    }
}

/// Until when a worker acts on a lease that lasts so long from `at` on: it stops a little sooner than the
/// store takes the lease away.
fn until(at: Instant, lasts: Duration) -> Instant {
    at + lasts / MARGIN * (MARGIN - 1)
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.lease.lost.cancel();
        self.lease.ended.cancel();
        self.crew.held.remove(&self.lease);
        self.crew.freed.notify_one();
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, Arc<Lease>>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Holds one more. A lease of the same execution that is still held is lost: it was given anew.
    fn hold(&self, id: ExecutionId, fence: Fence, until: Instant) -> Arc<Lease> {
        let mut held = self.lock();
        let earlier = held.get(&id).map(Arc::clone);
        let lease = Arc::new(Lease {
            id,
            fence,
            until: Mutex::new(until),
            lost: CancellationToken::new(),
            ended: CancellationToken::new(),
            before: earlier.as_ref().map(|lease| lease.ended.clone()),
        });
        held.insert(id, Arc::clone(&lease));
        drop(held);
        if let Some(earlier) = earlier {
            tracing::info!(%id, "it was claimed anew; the handler of the lease before is stopped");
            earlier.lost.cancel();
        }
        lease
    }

    /// Holds it no longer. If it was claimed anew meanwhile, that lease is another.
    fn remove(&self, lease: &Arc<Lease>) {
        let mut held = self.lock();
        if held.get(&lease.id).is_some_and(|other| Arc::ptr_eq(other, lease)) {
            held.remove(&lease.id);
        }
    }

    fn all(&self) -> Vec<Arc<Lease>> {
        let held = self.lock();
        held.values().filter(|lease| !lease.lost.is_cancelled()).map(Arc::clone).collect()
    }
}

/// Renews all leases, each after a third of its time and when one was taken away, until nothing is held
/// any more and nothing will be.
pub async fn keep(crew: Arc<Crew>) {
    let ttl = crew.settings.lease;
    let mut pause = ttl / 3;
    let (mut seen, mut rest) = (crew.fabric.taken(), ALERTS);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = alerted(&crew, seen, rest) => {}
            () = crew.tasks.wait() => return,
        }
        seen = crew.fabric.taken();
        let begun = Instant::now();
        let renewed = tokio::time::timeout(ttl / 3, renew_all(&crew, begun)).await;
        // Until the store answers again, ask more often.
        pause = if renewed.unwrap_or(false) { ttl / 3 } else { ttl / 12 };
        // However often leases are taken away, a small part of the time goes into renewals.
        rest = ALERTS.max(begun.elapsed() * 10);
    }
}

/// Rests, and waits until a lease was taken away from a worker, which may be this one.
async fn alerted(crew: &Crew, seen: u64, rest: Duration) {
    tokio::time::sleep(rest).await;
    crew.fabric.await_taken(seen).await;
}

/// Renews what is held; whether the store answered.
async fn renew_all(crew: &Crew, at: Instant) -> bool {
    let mut answered = true;
    for chunk in crew.held.all().chunks(BATCH_MAX) {
        answered &= renew(crew, chunk, at).await;
    }
    answered
}

async fn renew(crew: &Crew, leases: &[Arc<Lease>], at: Instant) -> bool {
    let lease_ttl_ms = crew.settings.lease_ttl_ms();
    let renews =
        leases.iter().map(|lease| Renew { id: lease.id, fence: lease.fence, lease_ttl_ms });
    let answers = match crew.fabric.renew(renews.collect()).await {
        Ok(answers) => answers,
        Err(error) => {
            tracing::warn!(%error, "cannot renew yet");
            return false;
        }
    };
    for (lease, answer) in leases.iter().zip(answers) {
        let id = lease.id;
        match answer {
            Ok(()) => {
                let until = until(at, crew.settings.lease);
                *lease.until.lock().expect("no holder of this lock panics") = until;
            }
            Err(error) if error.retryable() => tracing::warn!(%id, %error, "cannot renew yet"),
            Err(why) => {
                tracing::info!(%id, %why, "the execution is no longer ours");
                lease.lost.cancel();
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_earlier_lease_is_nothing_to_a_later_one() {
        let (held, id) = (Held::default(), ExecutionId::FIRST);
        let lease = |lease_epoch| {
            let fence = Fence { attempt_index: 0, lease_epoch };
            held.hold(id, fence, Instant::now() + Duration::from_secs(30))
        };
        let (first, second) = (lease(1), lease(3));
        assert!(first.lost.is_cancelled() && !second.lost.is_cancelled());
        held.remove(&first);
        assert_eq!(held.all().iter().map(|lease| lease.fence).collect::<Vec<_>>(), [second.fence]);
        held.remove(&second);
        assert_eq!(held.len(), 0);
    }
}
