//! Time: milliseconds since the Unix epoch, always the store's.
//!
//! Arithmetic saturates: a duration is validated before it is added, so saturation is only the
//! last guard against a clock that reads nonsense.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time, in milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// The Unix epoch, which is before everything we store.
    pub const ZERO: Self = Self(0);

    /// This time, `ms` milliseconds later.
    #[must_use]
    pub fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// This time, `ms` milliseconds earlier.
    #[must_use]
    pub fn minus(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to this time; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a store takes its time from: the database in production, a dial in tests.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Millis;

    /// By how much it may be wrong, in milliseconds; nothing if that is not known, and no lease may be
    /// taken away by it.
    fn error_ms(&self) -> Option<u64> {
        Some(0)
    }
}

/// Where a fold takes its randomness from (backoff jitter).
pub trait Entropy: Send {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;
}
