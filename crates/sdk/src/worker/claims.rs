//! Claiming: for all handlers together, and a little ahead, so that a handler that ends finds the
//! next piece of work at hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ff_core::limits::CLAIM_MAX;
use ff_core::{ClaimAsk, Code};
use tokio::time::Instant;
use uuid::Uuid;

use super::held::Kept;
use super::run::run;
use super::{Crew, Settings};
use crate::Error;
use crate::fabric::Work;
use crate::pauses::Pauses;

/// How long one claim waits.
const WAIT: Duration = Duration::from_secs(30);

/// Turns that others are given to make more room before a claim asks for it.
const TURNS: usize = 16;

/// How long handlers take, on average.
#[derive(Default)]
pub struct Pace(AtomicU64);

impl Pace {
    /// A handler took so long.
    pub fn took(&self, time: Duration) {
        let new = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let old = self.0.load(Ordering::Relaxed);
        let next = if old == 0 { new } else { old - old / 8 + new / 8 };
        self.0.store(next.max(1), Ordering::Relaxed);
    }

    /// Work that was claimed ahead found no place: nothing is, until handlers prove to be quick.
    pub fn is_slow(&self, settings: &Settings) {
        let slow = u64::try_from(settings.lease.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_max(slow, Ordering::Relaxed);
    }

    /// How much to hold beyond what can start at once: as much as starts within a quarter of a
    /// lease, and not more than runs at the same time. Nothing while that is unknown.
    fn ahead(&self, concurrency: usize, lease: Duration) -> usize {
        let average = self.0.load(Ordering::Relaxed);
        let quarter = u64::try_from(lease.as_micros() / 4).unwrap_or(u64::MAX);
        let rounds = quarter.checked_div(average).unwrap_or(0);
        if rounds == 0 { 0 } else { concurrency }
    }
}

/// Claims and starts work until told to drain, or refused for good.
pub async fn claim(crew: Arc<Crew>, ask: ClaimAsk) -> Result<(), Error> {
    loop {
        let wanted = tokio::select! {
            () = crew.draining.cancelled() => return Ok(()),
            wanted = room(&crew) => wanted,
        };
        let max = u32::try_from(wanted).unwrap_or(u32::MAX).min(CLAIM_MAX);
        let ask = ClaimAsk { claim_id: Uuid::now_v7(), max, ..ask.clone() };
        // A claim that is dropped gives its work back.
        let claimed = tokio::select! {
            () = crew.draining.cancelled() => return Ok(()),
            claimed = patiently(&crew, &ask) => claimed,
        };
        for work in claimed? {
            let kept = Kept::new(Arc::clone(&crew), &work);
            let crew = Arc::clone(&crew);
            crew.tasks.clone().spawn(run(crew, work, kept));
        }
    }
}

/// Asks until there is an answer; again under the same id, because the work may have been given
/// and the answer lost.
async fn patiently(crew: &Crew, ask: &ClaimAsk) -> Result<Vec<Work>, Error> {
    let (mut pauses, begun) = (Pauses::default(), Instant::now());
    let mut ask = ask.clone();
    loop {
        if begun.elapsed() > crew.settings.lease + WAIT {
            // Each repeat renews what was leased under this id, although its answer may never arrive.
            ask.claim_id = Uuid::now_v7();
        }
        let claimed = crew.fabric.claim(&ask, WAIT).await;
        *crew.trouble.lock().expect("no holder of this lock panics") = claimed.clone().err();
        match claimed {
            // An answer that cannot be read is something's between us and the server.
            Err(error) if error.retryable() || error.is(Code::Transport) => {
                tracing::warn!(%error, "cannot claim yet");
                pauses.next().await;
            }
            Err(error) => {
                tracing::warn!(%error, "claiming is refused for good");
                return Err(error);
            }
            Ok(claimed) => return Ok(claimed),
        }
    }
}

/// Waits until there is room for more work; for how much.
async fn room(crew: &Crew) -> usize {
    let Settings { concurrency: running, lease, prefetch, .. } = crew.settings;
    loop {
        let freed = crew.freed.notified();
        let ahead = if prefetch { crew.pace.ahead(running, lease) } else { 0 };
        let room = || (running + ahead).saturating_sub(crew.held.len());
        // While everybody is busy, it is enough to ask when there is room for a good bite.
        if room() >= ahead.div_ceil(2).max(1) {
            // Those who were reported by one commit make room together.
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            return room();
        }
        freed.await;
    }
}
