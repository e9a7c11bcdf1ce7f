//! The sample worker: a process of its own that works off samples until it is killed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use clap::Args;
use ff_core::decide::complete::Complete;
use ff_core::{Backend, WorkFilter};
use ff_engine::Engine;
use ff_sdk::fabric::{Call, Observed, Observer, Report};
use flowfabric::{Client, Database, Worker};

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
            Some(log) => Client::new(Arc::new(Observed::new(Arc::new(engine), Log(log.clone())))),
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

/// Keeps a file with one line per acknowledged completion: what a crash must not undo.
struct Log(PathBuf);

#[async_trait]
impl Observer for Log {
    async fn before(&self, _: Call<'_>) {}

    async fn after(&self, call: Call<'_>, success: bool) {
        use std::io::Write;
        let Call::Report(Report::Complete(Complete { id, fence, .. })) = call else { return };
        if success {
            let line = format!("{id} {} {}\n", fence.attempt_index, fence.lease_epoch);
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.0);
            let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
            written.expect("the log that was asked for can be written");
        }
    }
}
