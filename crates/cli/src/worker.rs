//! The sample worker: claims, renews and runs the handlers of the show.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use ff_core::decide::fail::Fail;
use ff_core::decide::progress::ReportProgress;
use ff_core::execution::Worker;
use ff_core::policy::FailureClass;
use ff_core::text::{Category, LaneId, WorkerId, WorkerInstanceId};
use ff_core::{Backend, ClaimAsk, Claimed, ExecutionId, Fence, WorkFilter};
use ff_engine::{Engine, Error};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;

use flowfabric::{Database, VARIABLE};

/// Work off sample executions until killed.
#[derive(Args)]
pub struct SampleWorker {
    /// The database, as sqlite:<path> or postgres://user:password@host:port/database?schema=name
    #[arg(long, value_name = "URL", env = VARIABLE, hide_env_values = true)]
    database: String,
    /// The lane to work on
    #[arg(long, default_value = "default")]
    lane: LaneId,
    /// What this process is called
    #[arg(long)]
    name: WorkerInstanceId,
    /// How long a lease lasts unless renewed
    #[arg(long, default_value_t = 2_000)]
    lease_ttl_ms: u64,
    /// Executions at the same time
    #[arg(long, default_value_t = 16)]
    concurrency: u32,
    /// Append a line for every acknowledged completion
    #[arg(long)]
    log: Option<PathBuf>,
    /// Leave the duties to other processes
    #[arg(long)]
    no_duties: bool,
}

/// How long a worker waits for its database when it starts.
const OPEN_MAX: Duration = Duration::from_mins(1);

impl SampleWorker {
    /// Runs until killed.
    pub async fn run(self) -> anyhow::Result<()> {
        let engine = Engine::new(patiently(&Database::parse(&self.database)?).await?);
        let duties = (!self.no_duties).then(|| engine.start_duties(&WorkFilter::default()));
        let worker = WorkerLoop {
            engine,
            lanes: vec![self.lane],
            worker: Worker { id: WorkerId::new("sample")?, instance: self.name },
            lease_ttl_ms: self.lease_ttl_ms,
            concurrency: self.concurrency,
            log: self.log.map(CompletionLog),
        };
        worker.run().await?;
        drop(duties);
        Ok(())
    }
}

/// A worker that runs handlers until its future is dropped.
#[derive(Clone)]
pub struct WorkerLoop {
    /// Where the work is.
    pub engine: Engine,
    /// Which lanes.
    pub lanes: Vec<LaneId>,
    /// Who.
    pub worker: Worker,
    /// How long a lease lasts unless renewed.
    pub lease_ttl_ms: u64,
    /// Executions at the same time.
    pub concurrency: u32,
    /// Where acknowledged completions are noted.
    pub log: Option<CompletionLog>,
}

impl WorkerLoop {
    /// Claims and runs until something is broken for good.
    pub async fn run(self) -> Result<(), Error> {
        let this = Arc::new(self);
        let slots = Arc::new(Semaphore::new(usize::try_from(this.concurrency).unwrap_or(1)));
        let mut running = JoinSet::new();
        loop {
            let slot = Arc::clone(&slots).acquire_owned().await.expect("never closed");
            let free = u32::try_from(slots.available_permits() + 1).unwrap_or(1);
            let ask = ClaimAsk {
                claim_id: Uuid::now_v7(),
                worker: this.worker.clone(),
                lanes: this.lanes.clone(),
                capabilities: BTreeSet::new(),
                lease_ttl_ms: this.lease_ttl_ms,
                max: free,
            };
            // The same ask, with its claim id: what a lost answer held is found again.
            let claim = || this.engine.claim(ask.clone(), Duration::from_secs(10));
            let claimed = persistently(claim).await?;
            drop(slot);
            for work in claimed {
                let slot = Arc::clone(&slots).acquire_owned().await.expect("never closed");
                let this = Arc::clone(&this);
                running.spawn(async move {
                    this.perform(work).await;
                    drop(slot);
                });
            }
            while running.try_join_next().is_some() {}
        }
    }

    /// Runs one execution, renewing its lease, and reports how it went.
    async fn perform(&self, work: Claimed) {
        let (id, fence) = (work.leased.execution.id, work.leased.fence);
        let handled = tokio::select! {
            handled = handle(&self.engine, &work) => handled,
            lost = self.keep(id, fence) => {
                tracing::info!(%id, error = %lost, "stopped: the lease is gone");
                return;
            }
        };
        // Sent again when its answer was lost: every report may be repeated.
        let report = persistently(|| self.report(id, fence, &handled));
        let ttl = Duration::from_millis(self.lease_ttl_ms);
        match tokio::time::timeout(ttl, report).await {
            Ok(Ok(())) => {}
            // Fenced or finished meanwhile: somebody else has it, or it is over.
            Ok(Err(error)) => tracing::info!(%id, %error, "the report was refused"),
            Err(_) => tracing::warn!(%id, "the report could not be made while the lease lasted"),
        }
    }

    /// Renews until that is refused.
    async fn keep(&self, id: ExecutionId, fence: Fence) -> Error {
        let period = Duration::from_millis(self.lease_ttl_ms / 3);
        loop {
            tokio::time::sleep(period).await;
            match self.engine.renew_lease(id, fence, self.lease_ttl_ms).await {
                Ok(_) => {}
                Err(error) if error.retryable() => tracing::warn!(%id, %error, "cannot renew yet"),
                Err(error) => return error,
            }
        }
    }

    async fn report(&self, id: ExecutionId, fence: Fence, handled: &Handled) -> Result<(), Error> {
        match handled {
            Handled::Done(result) => {
                let result = Some(Bytes::from(result.clone()));
                self.engine.complete_execution(id, fence, result).await?;
                if let Some(log) = &self.log {
                    log.note(id, fence);
                }
            }
            Handled::Failed(class, category, reason) => {
                let (category, class) = (Category::new(*category)?, *class);
                let fail = Fail { id, fence, reason: (*reason).to_owned(), category, class };
                self.engine.fail_execution(fail).await?;
            }
            Handled::Later(wait) => {
                let now = self.engine.server_time_ms().await?;
                self.engine.delay_execution(id, fence, now.plus(*wait)).await?;
            }
        }
        Ok(())
    }
}

/// Opens a database, waiting a while for one that cannot be reached: a worker is often started
/// together with its database, or again after both were lost.
async fn patiently(database: &Database) -> anyhow::Result<Arc<dyn Backend>> {
    let begun = Instant::now();
    let mut pauses = Pauses::default();
    loop {
        match database.open().await {
            Err(error) if begun.elapsed() < OPEN_MAX && error.retryable() => {
                tracing::warn!(%error, "trying again");
                pauses.next().await;
            }
            done => return Ok(done?),
        }
    }
}

/// Makes a call again while trying again may help.
async fn persistently<T, F>(mut call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut pauses = Pauses::default();
    loop {
        match call().await {
            Err(error) if error.retryable() => {
                tracing::warn!(%error, "trying again");
                pauses.next().await;
            }
            done => return done,
        }
    }
}

/// Pauses between tries: each twice as long as the one before it, up to a second, and spread so
/// that workers who lost the same server do not come back together.
#[derive(Default)]
struct Pauses(u32);

impl Pauses {
    async fn next(&mut self) {
        let pause = Duration::from_millis(50 << self.0).min(Duration::from_secs(1));
        self.0 = (self.0 + 1).min(5);
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
    }
}

/// A file with one line per acknowledged completion: what a crash must not undo.
#[derive(Clone)]
pub struct CompletionLog(PathBuf);

impl CompletionLog {
    fn note(&self, id: ExecutionId, fence: Fence) {
        use std::io::Write;
        let line = format!("{id} {} {}\n", fence.attempt_index, fence.lease_epoch);
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&self.0);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("the log that was asked for can be written");
    }
}

/// How a handler ended.
enum Handled {
    Done(String),
    Failed(FailureClass, &'static str, &'static str),
    Later(u64),
}

/// The handlers of the show, by kind. What they do is invented; how it is kept is not.
async fn handle(engine: &Engine, work: &Claimed) -> Handled {
    let x = &work.leased.execution;
    let attempt = work.leased.fence.attempt_index;
    let input = work
        .input
        .as_ref()
        .map_or_else(String::new, |blob| String::from_utf8_lossy(&blob.bytes).into_owned());
    let pause = |ms| tokio::time::sleep(Duration::from_millis(ms));
    match x.spec.kind.as_str() {
        "greet" => {
            pause(rand::random_range(5..60)).await;
            Handled::Done(format!("hello, {input}"))
        }
        "flaky" if attempt < 2 => {
            pause(20).await;
            Handled::Failed(FailureClass::Transient, "network", "connection reset by peer")
        }
        "broken" => Handled::Failed(FailureClass::Transient, "network", "no route to host"),
        "wrong" if x.counts.replays == 0 => {
            Handled::Failed(FailureClass::Permanent, "input", "the order has no address")
        }
        "endless" => {
            for percent in (5_u8..).step_by(10).take_while(|percent| *percent < 100) {
                let message = Some("still counting".to_owned());
                let fence = work.leased.fence;
                let progress = ReportProgress { id: x.id, fence, percent: Some(percent), message };
                if engine.report_progress(progress).await.is_err() {
                    break;
                }
                pause(50).await;
            }
            std::future::pending().await
        }
        "nap" if x.started_at == Some(x.updated_at) => Handled::Later(700),
        "heavy" if attempt == 0 => std::future::pending().await,
        "flaky" | "wrong" | "nap" | "heavy" => Handled::Done(format!("done at attempt {attempt}")),
        other => {
            tracing::debug!(kind = other, "a kind without a handler of its own");
            Handled::Done(input)
        }
    }
}
