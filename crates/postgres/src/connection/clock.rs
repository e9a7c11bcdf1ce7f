//! The database's clock, without asking it every time.
//!
//! The time of the last answer plus what has passed here since. Asked again every few seconds, it
//! is off by a fraction of a round trip; decisions that hang on less are guarded by their rows.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ff_core::backend::StoreError;
use ff_core::row::corrupt;
use ff_core::time::{Clock, Millis};

use super::Connections;
use crate::codec::Params;
use crate::statements::schema;

/// How often the database is asked.
pub const PERIOD: Duration = Duration::from_secs(10);

/// The database's clock.
pub struct DatabaseClock {
    began: Instant,
    /// The database's time when we began.
    origin: AtomicI64,
}

impl DatabaseClock {
    /// One that has asked the database once.
    pub async fn start(connections: &Connections) -> Result<Self, StoreError> {
        let clock = Self { began: Instant::now(), origin: AtomicI64::new(0) };
        clock.ask(connections).await?;
        Ok(clock)
    }

    /// Asks the database for its time.
    pub async fn ask(&self, connections: &Connections) -> Result<(), StoreError> {
        let sent = self.began.elapsed();
        let rows = connections.read(schema::now, Params::new()).await?;
        let answered = self.began.elapsed();
        let row = rows.first().ok_or_else(|| corrupt("now", "nothing", "is missing"))?;
        let said: i64 = row.try_get(0).map_err(|why| corrupt("now", "another type", why))?;
        // The server looked at its clock about half-way.
        let then = i64::try_from(((sent + answered) / 2).as_millis()).unwrap_or(i64::MAX);
        self.origin.store(said - then, Ordering::SeqCst);
        Ok(())
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Millis {
        let passed = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
        Millis(self.origin.load(Ordering::SeqCst).saturating_add(passed))
    }
}
