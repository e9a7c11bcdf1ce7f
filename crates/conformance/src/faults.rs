//! Failing store calls on purpose: before they take effect, or after, when the answer is lost.
//!
//! A caller that does not know whether its call took effect sends it again. Wherever the fault
//! strikes, the store must end as if nothing had gone wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use ff_core::backend::{Due, Duty, EventPage, Fate, Interest, StoreError, WorkFilter};
use ff_core::command::{Command, Outcome};
use ff_core::event::{Cursor, Filter};
use ff_core::fold::{Blob, BlobRef, Key, WorkingSet};
use ff_core::query::{Listing, Page, Query};
use ff_core::time::Millis;
use ff_core::{Agenda, Backend, ClaimAsk, Claims, Config, ExecutionId};

/// When a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// Before it takes effect.
    Before,
    /// After it took effect: the answer is lost.
    After,
}

/// What kind of call a store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Commands.
    Apply,
    /// Claims.
    Claim,
    /// Anything that only reads.
    Read,
}

/// Stands between a caller and a store, and may hold up or fail any call.
#[async_trait]
pub trait Obstacle: Send + Sync + 'static {
    /// Before a call reaches the store.
    async fn before(&self, call: Call) -> Result<(), StoreError>;
    /// After it took effect, before its answer is given.
    async fn after(&self, call: Call) -> Result<(), StoreError>;
}

/// A store behind an obstacle.
pub struct Obstructed<O> {
    inner: Arc<dyn Backend>,
    /// What stands before it.
    pub obstacle: O,
}

impl<O: Obstacle> Obstructed<O> {
    /// Puts `obstacle` before a store.
    pub fn new(inner: Arc<dyn Backend>, obstacle: O) -> Self {
        Self { inner, obstacle }
    }

    async fn call<T: Send>(
        &self,
        call: Call,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.obstacle.before(call).await?;
        let done = work.await?;
        self.obstacle.after(call).await?;
        Ok(done)
    }
}

/// Fails one call.
pub struct Fault {
    strike: Strike,
    /// Calls until it strikes.
    left: AtomicU32,
}

impl Fault {
    /// Fails call number `call`, counted from zero.
    pub fn new(strike: Strike, call: u32) -> Self {
        Self { strike, left: AtomicU32::new(call + 1) }
    }

    /// Whether it has struck.
    pub fn struck(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    fn pass(&self, at: Strike) -> Result<(), StoreError> {
        if self.strike != at || self.struck() || self.left.fetch_sub(1, Ordering::SeqCst) != 1 {
            return Ok(());
        }
        Err(StoreError::Transport { cause: "a fault, on purpose".to_owned() })
    }
}

#[async_trait]
impl Obstacle for Fault {
    async fn before(&self, _: Call) -> Result<(), StoreError> {
        self.pass(Strike::Before)
    }

    async fn after(&self, _: Call) -> Result<(), StoreError> {
        self.pass(Strike::After)
    }
}

#[async_trait]
impl<O: Obstacle> Backend for Obstructed<O> {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Outcome>, StoreError> {
        self.call(Call::Apply, self.inner.apply(batch)).await
    }

    async fn claim(&self, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
        self.call(Call::Claim, self.inner.claim(asks)).await
    }

    async fn agenda(&self) -> Result<Agenda, StoreError> {
        self.call(Call::Read, self.inner.agenda()).await
    }

    async fn due(&self, duty: Duty, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
        self.call(Call::Read, self.inner.due(duty, filter, limit)).await
    }

    async fn get(&self, keys: &[Key]) -> Result<WorkingSet, StoreError> {
        self.call(Call::Read, self.inner.get(keys)).await
    }

    async fn list(&self, query: &Query, page: &Page) -> Result<Listing, StoreError> {
        self.call(Call::Read, self.inner.list(query, page)).await
    }

    async fn events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        self.call(Call::Read, self.inner.events(from, filter, limit)).await
    }

    async fn tail(&self) -> Result<Cursor, StoreError> {
        self.call(Call::Read, self.inner.tail()).await
    }

    async fn blobs(&self, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError> {
        self.call(Call::Read, self.inner.blobs(refs)).await
    }

    async fn fate(&self, id: ExecutionId) -> Result<Fate, StoreError> {
        self.call(Call::Read, self.inner.fate(id)).await
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

/// Makes a call again until it is answered, as every caller of ours does.
pub async fn insist<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, StoreError>>,
{
    for _ in 0..3 {
        match call().await {
            Ok(answer) => return answer,
            Err(StoreError::Transport { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("one fault is one fault");
}

/// Tells a story once for every store call in it, with a fault there.
pub async fn at_every_call(backend: &Arc<dyn Backend>, tell: impl AsyncFn(&Obstructed<Fault>)) {
    for strike in [Strike::Before, Strike::After] {
        for call in 0.. {
            let faulty = Obstructed::new(Arc::clone(backend), Fault::new(strike, call));
            tell(&faulty).await;
            if !faulty.obstacle.struck() {
                assert!(call > 5, "the story has calls");
                break;
            }
        }
    }
}
