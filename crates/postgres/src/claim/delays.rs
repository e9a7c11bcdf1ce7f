//! When the next delay is over, as far as this process knows: whether a claim has to move delays.
//!
//! What this process files it knows at once; what others file it learns when it asks, which it
//! does every [`PERIOD`] at least.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ff_core::time::Millis;

/// How long others' delays may go unnoticed.
const PERIOD: Duration = Duration::from_millis(100);

/// When the next delay is over.
#[derive(Default)]
pub struct Delays(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    next: Option<Millis>,
    /// The earliest filed since the claim under way began.
    filed: Option<Millis>,
    asked: Option<Instant>,
    /// Whether some were taken back since the claim under way began.
    removed: bool,
}

impl Delays {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder of this lock panics")
    }

    /// A claim begins.
    pub fn begin(&self) {
        let mut inner = self.lock();
        inner.filed = None;
        inner.removed = false;
    }

    /// Whether some may be over at `now`.
    pub fn is_due(&self, now: Millis) -> bool {
        let inner = self.lock();
        let known = inner.asked.is_some_and(|asked| asked.elapsed() < PERIOD);
        !known || inner.next.is_some_and(|next| next <= now)
    }

    /// When the next one is over.
    pub fn next(&self) -> Option<Millis> {
        self.lock().next
    }

    /// Those that were over were moved; the next one is over then.
    pub fn promoted(&self, next: Option<Millis>) {
        let mut inner = self.lock();
        inner.next = earliest(next, inner.filed);
        inner.asked = Some(Instant::now()).filter(|_| !inner.removed);
    }

    /// Some were filed, the earliest of them for then.
    pub fn filed(&self, due: Option<Millis>) {
        let mut inner = self.lock();
        inner.next = earliest(inner.next, due);
        inner.filed = earliest(inner.filed, due);
    }

    /// Some were taken back: which is next has to be asked.
    pub fn removed(&self) {
        let mut inner = self.lock();
        inner.asked = None;
        inner.removed = true;
    }
}

fn earliest(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    one.into_iter().chain(other).min()
}
