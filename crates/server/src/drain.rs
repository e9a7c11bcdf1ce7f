//! Drain: how a server leaves. It first says that it is not ready, then closes: whatever waits
//! ends at once, whatever runs may finish.

use std::sync::Arc;

use tokio::sync::watch;

/// How far a server is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It is here to stay.
    Serving,
    /// It still serves, and says that it is about to go.
    Leaving,
    /// It accepts nothing new, and nothing waits any more.
    Closing,
}

/// The phase, shared by everything that must know it.
#[derive(Clone)]
pub struct Drain(Arc<watch::Sender<Phase>>);

impl Default for Drain {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::Serving)))
    }
}

impl Drain {
    /// Goes on to a later phase; there is no way back.
    pub fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// Whether the server is here to stay.
    pub fn is_serving(&self) -> bool {
        *self.0.borrow() == Phase::Serving
    }

    /// Waits until the server closes.
    pub async fn closing(&self) {
        let mut phase = self.0.subscribe();
        let closing = phase.wait_for(|phase| *phase == Phase::Closing).await;
        closing.expect("the sender is in this very handle");
    }

    /// What a wait leads to; nothing when the server closes first.
    pub async fn unless_closing<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // What is there when the server closes is still handed out.
            biased;
            done = wait => Some(done),
            () = self.closing() => None,
        }
    }
}
