//! Executions, flows and suspensions in one SQLite file.
//!
//! One thread owns the connection that writes; it takes all waiting calls together and commits
//! them in one `BEGIN IMMEDIATE` transaction (load, fold, write). A few threads read, searches
//! apart from the rest. Other processes may open the same file: SQLite's lock orders the writers,
//! and waiting readers notice foreign commits within [`Options::poll`].
//!
//! What must stay true: a caller is answered only after its commit, and the file is synced by
//! then (`synchronous = full`).

mod agenda;
mod apply;
mod claim;
mod codec;
mod connection;
mod due;
mod feed;
mod graph;
mod list;
mod load;
mod migrate;
mod statements;
mod waits;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use ff_core::backend::{Due, Duty, EventPage, Fate, Interest, StoreError, WorkFilter};
use ff_core::command::{Command, Outcome};
use ff_core::event::{Cursor, Filter};
use ff_core::fold::{Blob, BlobRef, Key, WorkingSet};
use ff_core::limits::Config;
use ff_core::query::{Listing, Page, Query};
use ff_core::time::{Clock, Entropy, Millis};
use ff_core::{Agenda, Backend, ClaimAsk, Claims, ExecutionId};
use rand::Rng;
use tokio::sync::watch;

use connection::{Readers, Writer};
use graph::due::Rounds;
pub use migrate::{SCHEMA_VERSION, Standing};

/// How to open a file.
pub struct Options {
    /// The file; created when absent.
    pub path: PathBuf,
    /// Bounds that a deployment may set.
    pub config: Config,
    /// The store's clock.
    pub clock: Arc<dyn Clock>,
    /// For backoff jitter.
    pub entropy: Box<dyn Entropy>,
    /// How often a waiter looks for commits of other processes.
    pub poll: Duration,
    /// How long a writer waits for another process before the call is tried again.
    pub busy: Duration,
}

impl Options {
    /// The file at `path`, on the host's clock.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            config: Config::default(),
            clock: Arc::new(HostClock),
            entropy: Box::new(HostEntropy),
            poll: Duration::from_millis(100),
            busy: connection::BUSY,
        }
    }
}

/// The clock of the machine that the file is on.
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The randomness of the machine.
struct HostEntropy;

impl Entropy for HostEntropy {
    fn next_u64(&mut self) -> u64 {
        rand::rng().next_u64()
    }
}

/// Threads for short reads: rows by key, the feed, what is due.
const READERS: usize = 2;
/// Threads for searches, which may look at many rows and must not keep duties waiting.
const SEARCHERS: usize = 1;

/// A SQLite file as a store.
pub struct Sqlite {
    writer: Writer,
    readers: Readers,
    searchers: Readers,
    clock: Arc<dyn Clock>,
    config: Config,
    signals: Arc<Signals>,
    rounds: Arc<Rounds>,
    poll: Duration,
}

/// Counts what this process committed, for those who wait.
struct Signals {
    work: watch::Sender<u64>,
    events: watch::Sender<u64>,
    flows: watch::Sender<u64>,
    cancels: watch::Sender<u64>,
    ends: watch::Sender<u64>,
    taken: watch::Sender<u64>,
    /// The last number seen that moves when another process commits.
    foreign: AtomicI64,
}

impl Signals {
    /// What moves when something happens that concerns `interest`.
    fn of(&self, interest: Interest) -> &watch::Sender<u64> {
        match interest {
            Interest::Work => &self.work,
            Interest::Events => &self.events,
            Interest::Flows => &self.flows,
            Interest::Cancels => &self.cancels,
            Interest::Ends => &self.ends,
            Interest::Taken => &self.taken,
        }
    }

    /// Wakes those who wait for `interest`.
    fn tell(&self, interest: Interest) {
        self.of(interest).send_modify(|generation| *generation += 1);
    }
}

impl Sqlite {
    /// Opens or creates a file and brings its schema up to date.
    pub fn open(options: Options) -> Result<Self, StoreError> {
        let mut connection = connection::open(&options.path, options.busy)?;
        migrate::migrate(&mut connection)?;
        let signals = Arc::new(Signals {
            work: watch::Sender::new(0),
            events: watch::Sender::new(0),
            flows: watch::Sender::new(0),
            cancels: watch::Sender::new(0),
            ends: watch::Sender::new(0),
            taken: watch::Sender::new(0),
            foreign: AtomicI64::new(connection::data_version(&connection)?),
        });
        let readers = Readers::start(&options.path, options.busy, READERS)?;
        let searchers = Readers::start(&options.path, options.busy, SEARCHERS)?;
        let state = apply::State {
            clock: Arc::clone(&options.clock),
            config: options.config.clone(),
            entropy: options.entropy,
            queues: BTreeSet::new(),
            signals: Arc::clone(&signals),
            pending: apply::Pending::default(),
        };
        let writer = Writer::start(connection, state);
        Ok(Self {
            writer,
            readers,
            searchers,
            clock: options.clock,
            config: options.config,
            signals,
            rounds: Arc::default(),
            poll: options.poll,
        })
    }

    /// Where the schema of a file stands. Changes nothing; a file that does not exist stands at 0.
    pub fn standing(path: impl AsRef<Path>) -> Result<Standing, StoreError> {
        migrate::standing(path.as_ref())
    }

    /// Brings the schema of a file up to date; creates it when absent.
    pub fn migrate(path: impl AsRef<Path>) -> Result<(), StoreError> {
        migrate::migrate(&mut connection::open(path.as_ref(), connection::BUSY)?)
    }

    /// Whether another process committed since somebody last asked.
    async fn foreign_commit(&self) -> bool {
        let version = self.writer.foreign_version().await;
        version.is_ok_and(|now| self.signals.foreign.swap(now, Ordering::SeqCst) != now)
    }
}

#[async_trait]
impl Backend for Sqlite {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Outcome>, StoreError> {
        let (batch, mut outcomes) = (Arc::new(batch), Vec::new());
        while outcomes.len() < batch.len() {
            let (all, from) = (Arc::clone(&batch), outcomes.len());
            let done = self.writer.run(move |tx, state| apply::apply(tx, state, &all[from..]));
            match done.await {
                Ok(done) => outcomes.extend(done),
                Err(error) if from == 0 => return Err(error),
                // What was committed before is no part of what failed.
                Err(error) => outcomes.resize(batch.len(), Err(error.rejection())),
            }
        }
        Ok(outcomes)
    }

    async fn claim(&self, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
        let asks = asks.to_vec();
        self.writer.run(move |tx, state| claim::claim(tx, state, &asks)).await
    }

    async fn agenda(&self) -> Result<Agenda, StoreError> {
        let now = self.clock.now();
        self.readers.run(move |tx| agenda::agenda(tx, now)).await
    }

    async fn due(&self, duty: Duty, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
        let (filter, now) = (filter.clone(), self.clock.now());
        let rounds = Arc::clone(&self.rounds);
        self.readers.run(move |tx| due::due(tx, duty, &filter, (limit, now), &rounds)).await
    }

    async fn get(&self, keys: &[Key]) -> Result<WorkingSet, StoreError> {
        let keys = keys.to_vec();
        self.readers
            .run(move |tx| {
                let mut have = WorkingSet::default();
                load::load(tx, &keys, &mut have)?;
                Ok(have)
            })
            .await
    }

    async fn list(&self, query: &Query, page: &Page) -> Result<Listing, StoreError> {
        let (query, page, now) = (query.clone(), page.clone(), self.clock.now());
        self.searchers.run(move |tx| list::list(tx, &query, &page, now)).await
    }

    async fn events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        let (from, filter) = (from.clone(), filter.clone());
        self.readers.run(move |tx| feed::events(tx, &from, &filter, limit)).await
    }

    async fn tail(&self) -> Result<Cursor, StoreError> {
        self.readers.run(feed::tail).await
    }

    async fn blobs(&self, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError> {
        let refs = refs.to_vec();
        self.readers.run(move |tx| load::blobs(tx, &refs)).await
    }

    async fn fate(&self, id: ExecutionId) -> Result<Fate, StoreError> {
        let have = self.get(&[Key::Execution(id)]).await?;
        Ok(Fate::of(have.executions.get(&id).and_then(Option::as_ref)))
    }

    fn generation(&self, interest: Interest) -> u64 {
        *self.signals.of(interest).borrow()
    }

    async fn wait(&self, interest: Interest, seen: u64) {
        let mut signal = self.signals.of(interest).subscribe();
        loop {
            let changed = signal.wait_for(|generation| *generation != seen);
            if tokio::time::timeout(self.poll, changed).await.is_ok() {
                return;
            }
            if self.foreign_commit().await {
                // Whoever notices tells everybody who waits in this process, itself included. Leases that
                // other processes take away are found when they are renewed.
                let all = Interest::ALL.into_iter();
                all.filter(|of| *of != Interest::Taken).for_each(|of| self.signals.tell(of));
            }
        }
    }

    fn config(&self) -> &Config {
        &self.config
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.clock.now())
    }
}
