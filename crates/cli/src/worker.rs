//! The sample worker: a process of its own that works off samples until it is killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clap::Args;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::renew::Renew;
use ff_core::state::PublicState;
use ff_core::step::StepRecord;
use ff_core::{Backend, ClaimAsk, ExecutionId, Fence, Millis, WorkFilter};
use ff_engine::Engine;
use ff_sdk::fabric::{Data, Fabric, Report, Work};
use ff_wire::lane::{CountsAnswer, LanesAnswer};
use ff_wire::steer::TagsRequest;
use ff_wire::{ExecutionPage, ExecutionSnapshot, History, SearchParams};
use flowfabric::{Client, Database, Error, Worker};

use crate::handlers;
use crate::place::Place;

/// Work off sample executions until killed.
#[derive(Args)]
pub struct SampleWorker {
    /// The lane to work on
    #[arg(long, default_value = "default")]
    lane: String,
    /// What this process is called
    #[arg(long)]
    name: String,
    /// How long a lease lasts unless renewed
    #[arg(long, default_value_t = 2_000)]
    lease_ttl_ms: u64,
    /// Executions at the same time
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// How long handlers may go on when the process is told to stop
    #[arg(long, default_value_t = 10_000)]
    drain_ms: u64,
    /// Append a line for every acknowledged completion
    #[arg(long)]
    log: Option<PathBuf>,
    /// Leave the duties to other processes
    #[arg(long)]
    no_duties: bool,
}

/// How long a worker waits for its database when it starts.
const OPEN_MAX: Duration = Duration::from_mins(1);
/// Between two tries to open it.
const OPEN_PAUSE: Duration = Duration::from_millis(200);

impl SampleWorker {
    /// Runs until killed, or told to stop.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        if place.is_server() {
            return Ok(self.worker(&place.client().await?).run().await?);
        }
        let engine = Engine::new(patiently(&place.database("sample-worker")?).await?);
        let duties = (!self.no_duties).then(|| engine.start_duties(&WorkFilter::default()));
        let client = match &self.log {
            Some(log) => Client::new(Arc::new(Logged { engine, log: log.clone() })),
            None => Client::new(Arc::new(engine)),
        };
        self.worker(&client).run().await?;
        drop(duties);
        Ok(())
    }

    fn worker(&self, client: &Client) -> Worker {
        handlers::worker(client, &self.lane)
            .instance(self.name.clone())
            .lease(Duration::from_millis(self.lease_ttl_ms))
            .drain(Duration::from_millis(self.drain_ms))
            .concurrency(self.concurrency)
    }
}

/// Opens a database, waiting a while for one that cannot be reached: a worker is often started
/// together with its database, or again after both were lost.
async fn patiently(database: &Database) -> anyhow::Result<Arc<dyn Backend>> {
    let begun = Instant::now();
    loop {
        match database.open().await {
            Err(error) if begun.elapsed() < OPEN_MAX && error.retryable() => {
                tracing::warn!(%error, "trying again");
                tokio::time::sleep(OPEN_PAUSE.mul_f64(rand::random_range(0.5..=1.0))).await;
            }
            done => return Ok(done?),
        }
    }
}

/// An engine that keeps a file with one line per acknowledged completion: what a crash must not
/// undo.
struct Logged {
    engine: Engine,
    log: PathBuf,
}

impl Logged {
    fn note(&self, id: ExecutionId, fence: Fence) {
        use std::io::Write;
        let line = format!("{id} {} {}\n", fence.attempt_index, fence.lease_epoch);
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.log);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("the log that was asked for can be written");
    }

    fn inner(&self) -> &dyn Fabric {
        &self.engine
    }
}

#[async_trait]
impl Fabric for Logged {
    async fn report(&self, report: Report) -> Result<(), Error> {
        let completed = match &report {
            Report::Complete(complete) => Some((complete.id, complete.fence)),
            Report::Fail(_)
            | Report::Delay(_)
            | Report::Release(_)
            | Report::Progress(_)
            | Report::Steps(_)
            | Report::Pause(..) => None,
        };
        self.inner().report(report).await?;
        if let Some((id, fence)) = completed {
            self.note(id, fence);
        }
        Ok(())
    }

    async fn create(&self, creates: Vec<Create>) -> Result<Vec<Result<Created, Error>>, Error> {
        self.inner().create(creates).await
    }

    async fn claim(&self, ask: &ClaimAsk, wait: Duration, again: bool) -> Result<Vec<Work>, Error> {
        self.inner().claim(ask, wait, again).await
    }

    async fn renew(&self, leases: Vec<Renew>) -> Result<Vec<Result<(), Error>>, Error> {
        self.inner().renew(leases).await
    }

    async fn journal(&self, id: ExecutionId) -> Result<Vec<StepRecord>, Error> {
        self.inner().journal(id).await
    }

    async fn now(&self) -> Result<Millis, Error> {
        self.inner().now().await
    }

    async fn wait(&self, id: ExecutionId, wait: Duration) -> Result<PublicState, Error> {
        self.inner().wait(id, wait).await
    }

    async fn result(&self, id: ExecutionId) -> Result<Option<Data>, Error> {
        self.inner().result(id).await
    }

    async fn cancel(&self, id: ExecutionId, reason: String) -> Result<(), Error> {
        self.inner().cancel(id, reason).await
    }

    async fn replay(&self, id: ExecutionId, reason: String) -> Result<(), Error> {
        self.inner().replay(id, reason).await
    }

    async fn hold(&self, id: ExecutionId, reason: String) -> Result<(), Error> {
        self.inner().hold(id, reason).await
    }

    async fn unhold(&self, id: ExecutionId) -> Result<(), Error> {
        self.inner().unhold(id).await
    }

    async fn set_priority(&self, id: ExecutionId, priority: i32) -> Result<(), Error> {
        self.inner().set_priority(id, priority).await
    }

    async fn set_tags(&self, id: ExecutionId, edit: TagsRequest) -> Result<(), Error> {
        self.inner().set_tags(id, edit).await
    }

    async fn describe(&self, id: ExecutionId) -> Result<ExecutionSnapshot, Error> {
        self.inner().describe(id).await
    }

    async fn history(&self, id: ExecutionId) -> Result<History, Error> {
        self.inner().history(id).await
    }

    async fn search(&self, search: SearchParams) -> Result<ExecutionPage, Error> {
        self.inner().search(search).await
    }

    async fn lanes(&self) -> Result<LanesAnswer, Error> {
        self.inner().lanes().await
    }

    async fn counts(&self) -> Result<CountsAnswer, Error> {
        self.inner().counts().await
    }
}
