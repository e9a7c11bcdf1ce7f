//! What a worker holds, and the one loop that keeps its leases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ff_core::decide::renew::Renew;
use ff_core::limits::BATCH_MAX;
use ff_core::{ExecutionId, Fence};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Crew;
use crate::Error;
use crate::fabric::Work;

/// Executions that a worker holds.
#[derive(Default)]
pub struct Held(Mutex<HashMap<ExecutionId, Lease>>);

struct Lease {
    fence: Fence,
    renewed: Instant,
    lost: CancellationToken,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, Lease>> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Holds one more; the token fires when it is lost.
    pub fn add(&self, work: &Work) -> CancellationToken {
        self.hold(work.id, work.fence)
    }

    fn hold(&self, id: ExecutionId, fence: Fence) -> CancellationToken {
        let lost = CancellationToken::new();
        let lease = Lease { fence, renewed: Instant::now(), lost: lost.clone() };
        self.lock().insert(id, lease);
        lost
    }

    /// Holds it no longer. If it was claimed anew meanwhile, that lease is another.
    pub fn remove(&self, id: ExecutionId, fence: Fence) {
        let mut held = self.lock();
        if held.get(&id).is_some_and(|lease| lease.fence == fence) {
            held.remove(&id);
        }
    }

    fn all(&self) -> Vec<(ExecutionId, Fence)> {
        let held = self.lock();
        let kept = held.iter().filter(|(_, lease)| !lease.lost.is_cancelled());
        kept.map(|(id, lease)| (*id, lease.fence)).collect()
    }

    fn renewed(&self, id: ExecutionId, fence: Fence, at: Instant) {
        if let Some(lease) = self.lock().get_mut(&id).filter(|lease| lease.fence == fence) {
            lease.renewed = at;
        }
    }

    fn lose(&self, id: ExecutionId, fence: Fence, why: &Error) {
        if let Some(lease) = self.lock().get(&id).filter(|lease| lease.fence == fence) {
            tracing::info!(%id, %why, "the execution is no longer ours");
            lease.lost.cancel();
        }
    }

    /// Gives up leases that cannot be held any more, whatever the store says.
    fn lose_overdue(&self, ttl: Duration) {
        for (id, lease) in self.lock().iter().filter(|(_, lease)| lease.renewed.elapsed() >= ttl) {
            if !lease.lost.is_cancelled() {
                tracing::warn!(%id, "its lease could not be renewed in time");
                lease.lost.cancel();
            }
        }
    }
}

/// Renews all leases, each after a third of its time, until nothing is held any more and nothing
/// will be.
pub async fn keep(crew: Arc<Crew>) {
    let ttl = crew.settings.lease;
    let mut pause = ttl / 3;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = crew.tasks.wait() => return,
        }
        let begun = Instant::now();
        let mut failed = false;
        for chunk in crew.held.all().chunks(BATCH_MAX) {
            failed |= !renew(&crew, chunk, begun).await;
        }
        crew.held.lose_overdue(ttl);
        // Until the store answers again, ask more often.
        pause = if failed { ttl / 12 } else { ttl / 3 };
    }
}

async fn renew(crew: &Crew, leases: &[(ExecutionId, Fence)], at: Instant) -> bool {
    let lease_ttl_ms = crew.settings.lease_ttl_ms();
    let renews = leases.iter().map(|(id, fence)| Renew { id: *id, fence: *fence, lease_ttl_ms });
    let answers = match crew.fabric.renew(renews.collect()).await {
        Ok(answers) => answers,
        Err(error) => {
            tracing::warn!(%error, "cannot renew yet");
            return false;
        }
    };
    for ((id, fence), answer) in leases.iter().zip(answers) {
        match answer {
            Ok(()) => crew.held.renewed(*id, *fence, at),
            Err(error) if error.retryable() => tracing::warn!(%id, %error, "cannot renew yet"),
            Err(error) => crew.held.lose(*id, *fence, &error),
        }
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_earlier_lease_is_nothing_to_a_later_one() {
        let (held, id) = (Held::default(), ExecutionId::FIRST);
        let fence = |lease_epoch| Fence { attempt_index: 0, lease_epoch };
        held.hold(id, fence(1));
        let later = held.hold(id, fence(3));
        held.lose(id, fence(1), &Error::permanent("gone"));
        held.remove(id, fence(1));
        assert_eq!((held.all(), later.is_cancelled()), (vec![(id, fence(3))], false));
        held.lose(id, fence(3), &Error::permanent("gone"));
        assert!(later.is_cancelled());
        held.remove(id, fence(3));
        assert_eq!(held.len(), 0);
    }
}
