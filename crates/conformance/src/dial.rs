//! A clock that tests turn by hand, and dice that always fall the same way.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use ff_core::time::{Clock, Entropy, Millis};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// When every test begins.
pub const DAWN: Millis = Millis(1_700_000_000_000);

/// Virtual time: it moves when told to, in either direction.
pub struct Dial(AtomicI64);

impl Default for Dial {
    fn default() -> Self {
        Self(AtomicI64::new(DAWN.0))
    }
}

impl Dial {
    /// Moves time on, or back.
    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the time.
    pub fn set(&self, at: Millis) {
        self.0.store(at.0, Ordering::SeqCst);
    }
}

impl Clock for Dial {
    fn now(&self) -> Millis {
        Millis(self.0.load(Ordering::SeqCst))
    }
}

/// Random numbers from a seed. Clones draw from the same sequence.
#[derive(Clone)]
pub struct Dice(Arc<Mutex<SmallRng>>);

impl Dice {
    /// The same seed, the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))))
    }
}

impl Entropy for Dice {
    fn next_u64(&mut self) -> u64 {
        self.0.lock().expect("no holder of this lock panics").next_u64()
    }
}
