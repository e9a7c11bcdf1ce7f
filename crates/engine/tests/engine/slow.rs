//! A store that takes its time, so that calls gather, and counts what reaches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use ff_conformance::faults::{Call, Obstacle, Obstructed};
use ff_core::{Backend, StoreError};
use tokio::sync::Semaphore;

/// A store behind a gate.
pub type Slow = Obstructed<Gate>;

/// Lets a write through for every permit.
pub struct Gate {
    pub permits: Semaphore,
    pub batches: AtomicUsize,
    pub claims: AtomicUsize,
    pub reads: AtomicUsize,
}

/// A store behind a closed gate.
pub fn slow(inner: Arc<dyn Backend>) -> Slow {
    let [batches, claims, reads] = [const { AtomicUsize::new(0) }; 3];
    Obstructed::new(inner, Gate { permits: Semaphore::new(0), batches, claims, reads })
}

#[async_trait]
impl Obstacle for Gate {
    async fn before(&self, call: Call) -> Result<(), StoreError> {
        let count = match call {
            Call::Apply => &self.batches,
            Call::Claim => &self.claims,
            Call::Read => {
                self.reads.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
        };
        count.fetch_add(1, Ordering::SeqCst);
        self.permits.acquire().await.unwrap().forget();
        Ok(())
    }

    async fn after(&self, _: Call) -> Result<(), StoreError> {
        Ok(())
    }
}
