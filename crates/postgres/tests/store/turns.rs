//! Random histories whose batches two processes apply in turn: what either remembers is often behind what
//! the other wrote, and must never show in the rows. What a claim finds may: a process looks for what
//! others have filed once a second, so these histories are audited and not compared.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ff_backend_postgres::Postgres;
use ff_conformance::history::{Open, play};
use ff_conformance::{Dial, Dice, Store};
use ff_core::backend::{Agenda, Claims, Due, Duty, EventPage, Interest, StoreError, WorkFilter};
use ff_core::command::{Command, Outcome};
use ff_core::event::{Cursor, Filter};
use ff_core::fold::{Blob, BlobRef, Key, WorkingSet};
use ff_core::query::{Listing, Page, Query};
use ff_core::time::{Entropy, Millis};
use ff_core::{Backend, ClaimAsk, Config};

use crate::dump;
use crate::server::{Schema, wait};

/// Two processes on one schema.
struct Turns {
    stores: [Arc<Postgres>; 2],
    turn: AtomicUsize,
}

impl Turns {
    fn next(&self) -> &Postgres {
        &self.stores[self.turn.fetch_add(1, Ordering::SeqCst) % 2]
    }
}

#[async_trait]
impl Backend for Turns {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Outcome>, StoreError> {
        self.next().apply(batch).await
    }

    async fn claim(&self, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
        let claims = self.stores[0].claim(asks).await?;
        Ok(Claims { emptied: false, ..claims })
    }

    async fn agenda(&self) -> Result<Agenda, StoreError> {
        self.stores[0].agenda().await
    }

    async fn due(&self, duty: Duty, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
        self.stores[0].due(duty, filter, limit).await
    }

    async fn get(&self, keys: &[Key]) -> Result<WorkingSet, StoreError> {
        self.stores[0].get(keys).await
    }

    async fn list(&self, query: &Query, page: &Page) -> Result<Listing, StoreError> {
        self.stores[0].list(query, page).await
    }

    async fn events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        self.stores[0].events(from, filter, limit).await
    }

    async fn tail(&self) -> Result<Cursor, StoreError> {
        self.stores[0].tail().await
    }

    async fn blobs(&self, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError> {
        self.stores[0].blobs(refs).await
    }

    fn generation(&self, interest: Interest) -> u64 {
        self.stores[0].generation(interest)
    }

    async fn wait(&self, interest: Interest, seen: u64) {
        self.stores[0].wait(interest, seen).await;
    }

    fn config(&self) -> &Config {
        self.stores[0].config()
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        self.stores[0].now().await
    }
}

/// Dice that both throw.
#[derive(Clone)]
struct Shared(Arc<Mutex<Dice>>);

impl Entropy for Shared {
    fn next_u64(&mut self) -> u64 {
        self.0.lock().unwrap().next_u64()
    }
}

#[allow(clippy::needless_pass_by_value, reason = "what histories open has this shape")]
fn turns(clock: Arc<Dial>) -> Store {
    let schema = Arc::new(Schema::empty());
    let dice = Shared(Arc::new(Mutex::new(Dice::new(1))));
    let open = || {
        let mut options = schema.options(Arc::clone(&clock) as _, Box::new(dice.clone()));
        options.url.push_str("?connections=few");
        Arc::new(wait(async move { Postgres::open(options).await.unwrap() }))
    };
    let backend = Arc::new(Turns { stores: [open(), open()], turn: AtomicUsize::new(0) });
    let dumped = Arc::clone(&schema);
    let dump = Box::new(move || dump::dump(&dumped));
    Store { backend, dump, keep: Box::new(schema) }
}

const STORES: [(&str, Open); 1] = [("two processes", turns)];
/// Steps of one history.
const STEPS: u32 = 90;
/// Histories; the seeds are none of the others'.
const HISTORIES: std::ops::Range<u64> = 100_000..100_100;

#[tokio::test]
async fn two_processes_that_take_turns_leave_rows_that_agree() {
    if let Ok(seed) = std::env::var("FF_SEED") {
        return play(seed.parse().unwrap(), STEPS, &STORES).await;
    }
    for seed in HISTORIES {
        play(seed, STEPS, &STORES).await;
    }
}
