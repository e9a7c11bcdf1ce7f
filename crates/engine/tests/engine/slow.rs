//! A store that takes its time, so that calls gather, and counts what reaches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use ff_core::backend::{Due, Duty, EventPage, Interest, StoreError, WorkFilter};
use ff_core::command::{Command, Outcome};
use ff_core::event::{Cursor, Filter};
use ff_core::fold::{Blob, BlobRef, Key, WorkingSet};
use ff_core::query::{Listing, Page, Query};
use ff_core::time::Millis;
use ff_core::{Backend, ClaimAsk, Claims, Config};
use tokio::sync::Semaphore;

/// Lets a call through for every permit.
pub struct Slow {
    inner: Arc<dyn Backend>,
    pub gate: Semaphore,
    pub batches: AtomicUsize,
    pub claims: AtomicUsize,
}

impl Slow {
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        Self {
            inner,
            gate: Semaphore::new(0),
            batches: AtomicUsize::new(0),
            claims: AtomicUsize::new(0),
        }
    }

    async fn pass(&self) {
        self.gate.acquire().await.unwrap().forget();
    }
}

#[async_trait]
impl Backend for Slow {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Outcome>, StoreError> {
        self.batches.fetch_add(1, Ordering::SeqCst);
        self.pass().await;
        self.inner.apply(batch).await
    }

    async fn claim(&self, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.pass().await;
        self.inner.claim(asks).await
    }

    async fn due(&self, duty: Duty, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
        self.inner.due(duty, filter, limit).await
    }

    async fn get(&self, keys: &[Key]) -> Result<WorkingSet, StoreError> {
        self.inner.get(keys).await
    }

    async fn list(&self, query: &Query, page: &Page) -> Result<Listing, StoreError> {
        self.inner.list(query, page).await
    }

    async fn events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        self.inner.events(from, filter, limit).await
    }

    async fn tail(&self) -> Result<Cursor, StoreError> {
        self.inner.tail().await
    }

    async fn blobs(&self, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError> {
        self.inner.blobs(refs).await
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
