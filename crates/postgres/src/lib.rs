//! Executions and flows in a PostgreSQL database.
//!
//! Any number of processes share one schema. Each keeps a few connections for each kind of
//! traffic; a batch is one or two flights of pipelined statements in one transaction, whatever
//! its size. READ COMMITTED suffices: rows are locked in the order of their keys or guarded by
//! their versions.
//!
//! What must stay true: a caller is answered only after its commit; what is remembered between
//! calls is a guess that every write checks.

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

use std::sync::Arc;
use std::time::Duration;

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
use tokio::task::JoinSet;

use apply::State;
use connection::clock::{self, DatabaseClock};
use connection::listener::{self, Signals};
use connection::{Address, Connections};
pub use migrate::{SCHEMA_VERSION, Standing};
pub use statements::ALL as STATEMENTS;

/// How to open a database.
pub struct Options {
    /// `postgres://user:password@host:port/database`, with `?schema=`, `?sslmode=` and
    /// `?pooled=true` or `?connections=few` where needed.
    pub url: String,
    /// The schema of our tables, if the URL does not say; created when absent.
    pub schema: Option<String>,
    /// Bounds that a deployment may set.
    pub config: Config,
    /// The store's clock; the database's unless a test brings its own.
    pub clock: Option<Arc<dyn Clock>>,
    /// For backoff jitter.
    pub entropy: Box<dyn Entropy>,
    /// How often a waiter looks for commits of other processes while it cannot listen.
    pub poll: Duration,
    /// Whether a claim may start where the last one of this process ended, for a tenth of a second. Without,
    /// more urgent work of other processes is never passed over, and claims pay for dead rows.
    pub floors: bool,
}

impl Options {
    /// The database at `url`, on its own clock.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: None,
            config: Config::default(),
            clock: None,
            entropy: Box::new(HostEntropy),
            poll: Duration::from_millis(200),
            floors: true,
        }
    }
}

/// The randomness of the machine.
struct HostEntropy;

impl Entropy for HostEntropy {
    fn next_u64(&mut self) -> u64 {
        rand::rng().next_u64()
    }
}

/// A PostgreSQL database as a store.
pub struct Postgres {
    state: Arc<State>,
    poll: Duration,
    /// Ends with the store.
    _tasks: JoinSet<()>,
}

impl Postgres {
    /// Opens a database and brings its schema up to date. Must be called inside a Tokio runtime.
    pub async fn open(options: Options) -> Result<Self, StoreError> {
        let address = Address::parse(&options.url, options.schema.as_deref())?;
        let types = migrate::migrate(&address).await?;
        let signals = Signals::new(&address.schema);
        let mut tasks = JoinSet::new();
        if !address.pooled {
            listener::start(address.clone(), Arc::clone(&signals), &mut tasks);
        }
        let connections = Connections::new(address, types)?;
        let own = if options.clock.is_none() {
            Some(Arc::new(DatabaseClock::start(&connections).await?))
        } else {
            None
        };
        let clock = options.clock.or(own.clone().map(|clock| clock as Arc<dyn Clock>));
        let clock = clock.expect("one of the two is there");
        let (source, bounds) = ((clock, options.entropy), (options.config, options.floors));
        let state = Arc::new(State::new(connections, source, bounds, signals));
        if let Some(own) = own {
            let state = Arc::clone(&state);
            tasks.spawn(async move {
                let mut pause = clock::AGAIN;
                loop {
                    tokio::time::sleep(pause).await;
                    pause = own.ask(&state.connections).await.unwrap_or_else(|error| {
                        tracing::warn!(%error, "cannot ask the database for its time");
                        clock::AGAIN
                    });
                }
            });
        }
        Ok(Self { state, poll: options.poll, _tasks: tasks })
    }

    /// Where the schema at `url` stands. Changes nothing.
    pub async fn standing(url: &str) -> Result<Standing, StoreError> {
        migrate::standing(&Address::parse(url, None)?).await
    }

    /// Brings the schema at `url` up to date.
    pub async fn migrate(url: &str) -> Result<(), StoreError> {
        migrate::migrate(&Address::parse(url, None)?).await.map(drop)
    }
}

#[async_trait]
impl Backend for Postgres {
    async fn apply(&self, batch: Vec<Command>) -> Result<Vec<Outcome>, StoreError> {
        Box::pin(apply::apply(&self.state, &batch)).await
    }

    async fn claim(&self, asks: &[ClaimAsk]) -> Result<Claims, StoreError> {
        Box::pin(claim::claim(&self.state, asks)).await
    }

    async fn agenda(&self) -> Result<Agenda, StoreError> {
        agenda::agenda(&self.state.connections, &self.state.signals, self.state.clock.now()).await
    }

    async fn due(&self, duty: Duty, filter: &WorkFilter, limit: u32) -> Result<Due, StoreError> {
        due::due(&self.state, duty, filter, limit).await
    }

    async fn get(&self, keys: &[Key]) -> Result<WorkingSet, StoreError> {
        let wanted = load::Wanted::new(keys.iter().cloned());
        let answers = self.state.connections.read_together(wanted.load()).await?;
        let loaded = wanted.read(answers)?;
        match loaded.damaged.into_values().next() {
            Some(error) => Err(error),
            None => Ok(loaded.have),
        }
    }

    async fn list(&self, query: &Query, page: &Page) -> Result<Listing, StoreError> {
        list::list(&self.state.connections, query, page, self.state.clock.now()).await
    }

    async fn events(
        &self,
        from: &Cursor,
        filter: &Filter,
        limit: u32,
    ) -> Result<EventPage, StoreError> {
        feed::events(&self.state.connections, from, filter, limit).await
    }

    async fn tail(&self) -> Result<Cursor, StoreError> {
        feed::tail(&self.state.connections).await
    }

    async fn blobs(&self, refs: &[BlobRef]) -> Result<Vec<Blob>, StoreError> {
        let step = load::blobs_step(refs);
        let answers = self.state.connections.read_all(vec![step]).await?;
        let found = answers.iter().flatten().map(load::read_blob).collect::<Result<_, _>>()?;
        Ok(load::in_order(refs, found))
    }

    async fn fate(&self, id: ExecutionId) -> Result<Fate, StoreError> {
        let answers = self.state.connections.read_all(vec![load::fate_step(id)]).await?;
        answers.iter().flatten().next().map_or(Ok(Fate::Unknown), |row| load::read_fate(id, row))
    }

    fn generation(&self, interest: Interest) -> u64 {
        *self.state.signals.of(interest).borrow()
    }

    async fn wait(&self, interest: Interest, seen: u64) {
        self.state.signals.wait(interest, seen, self.poll).await;
    }

    fn config(&self) -> &Config {
        &self.state.config
    }

    async fn now(&self) -> Result<Millis, StoreError> {
        Ok(self.state.clock.now())
    }
}
