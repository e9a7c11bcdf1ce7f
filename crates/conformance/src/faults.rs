//! Failing store calls on purpose: before they take effect, or after, when the answer is lost.
//!
//! A caller that does not know whether its call took effect sends it again. Wherever the fault
//! strikes, the store must end as if nothing had gone wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use ff_core::backend::{Due, Duty, EventPage, Interest, StoreError, WorkFilter};
use ff_core::command::{Command, Outcome};
use ff_core::event::{Cursor, Filter};
use ff_core::fold::{Blob, BlobRef, Key, WorkingSet};
use ff_core::query::{Listing, Page, Query};
use ff_core::time::Millis;
use ff_core::{Backend, ClaimAsk, Claims, Config};

/// When a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// Before it takes effect.
    Before,
    /// After it took effect: the answer is lost.
    After,
}

/// A store of which one call fails.
pub struct Faulty {
    inner: Arc<dyn Backend>,
    strike: Strike,
    /// Calls until the fault.
    left: AtomicU32,
    calls: AtomicU32,
}

impl Faulty {
    /// Fails call number `call`, counted from zero.
    pub fn new(inner: Arc<dyn Backend>, strike: Strike, call: u32) -> Self {
        Self { inner, strike, left: AtomicU32::new(call + 1), calls: AtomicU32::new(0) }
    }

    /// Whether the fault has struck.
    pub fn struck(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    /// Calls so far.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    async fn call<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let left = self.left.load(Ordering::SeqCst);
        self.left.store(left.saturating_sub(1), Ordering::SeqCst);
        if left != 1 {
            return work.await;
        }
        if self.strike == Strike::After {
            work.await?;
        }
        Err(StoreError::Transport { cause: "a fault, on purpose".to_owned() })
    }
}

#[async_trait]
impl Backend for Faulty {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Outcome>, StoreError> {
        self.call(self.inner.apply(batch)).await
    }

    async fn claim(&self, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
        self.call(self.inner.claim(asks)).await
    }

    async fn due(&self, duty: Duty, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
        self.call(self.inner.due(duty, filter, limit)).await
    }

    async fn get(&self, keys: &[Key]) -> Result<WorkingSet, StoreError> {
        self.call(self.inner.get(keys)).await
    }

    async fn list(&self, query: &Query, page: &Page) -> Result<Listing, StoreError> {
        self.call(self.inner.list(query, page)).await
    }

    async fn events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        self.call(self.inner.events(from, filter, limit)).await
    }

    async fn tail(&self) -> Result<Cursor, StoreError> {
        self.call(self.inner.tail()).await
    }

    async fn blobs(&self, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError> {
        self.call(self.inner.blobs(refs)).await
    }

    fn generation(&self, interest: Interest) -> u64 {
        self.inner.generation(interest)
    }

    async fn wait(&self, interest: Interest, seen: u64) {
        self.inner.wait(interest, seen).await;
    }

    fn config(&self) -> &Config {
        self.inner.config()
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.inner.now().await
    }
}
