//! Pauses between tries: each twice as long as the one before it, up to a second, and spread so that
//! workers who lost the same server do not come back together.

use std::time::Duration;

use crate::Error;

/// Pauses between tries.
#[derive(Default)]
pub struct Pauses(u32);

impl Pauses {
    /// Waits before the next try.
    pub async fn next(&mut self) {
        let pause = Duration::from_millis(50 << self.0).min(Duration::from_secs(1));
        self.0 = (self.0 + 1).min(5);
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
    }
}

/// Makes a call again while trying again may help.
pub async fn persistently<T, F>(mut call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pauses = Pauses::default();
    loop {
        match call().await {
            Err(error) if error.retryable() => {
                tracing::warn!(%error, "trying again");
                pauses.next().await;
            }
            done => return done,
        }
    }
}
