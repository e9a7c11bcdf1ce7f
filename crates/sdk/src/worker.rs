//! A worker: claims work of some lanes, runs handlers for it, keeps its leases, and gives back what
//! it cannot finish.
//!
//! One claimer asks for all handlers together, a little ahead of what they can start. One renewer
//! keeps all leases. What must stay true: everything claimed is either reported or given back while
//! the worker stops in order, and whatever it still holds when it is killed is held by a lease that
//! runs out.

mod claims;
mod held;
mod run;

use std::any::TypeId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ff_core::text::{LaneId, WorkerId, WorkerInstanceId};
use ff_core::{ClaimAsk, Rejection};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::Error;
use crate::context::Shared;
use crate::fabric::Fabric;
use crate::handler::{Handler, Handlers};
use crate::stop::told_to_stop;
use claims::Pace;
use held::Held;

/// How a worker works.
#[derive(Clone)]
struct Settings {
    lanes: Vec<String>,
    name: String,
    instance: String,
    capabilities: BTreeSet<String>,
    concurrency: usize,
    lease: Duration,
    drain: Duration,
    prefetch: bool,
}

/// A worker that is being put together. Say what it handles, then [`run`](Self::run) it.
#[must_use = "it does nothing until it is run"]
pub struct Worker {
    fabric: Arc<dyn Fabric>,
    settings: Settings,
    handlers: Handlers,
    shared: Shared,
}

impl Worker {
    pub(crate) fn new(fabric: Arc<dyn Fabric>, lane: String) -> Self {
        let settings = Settings {
            lanes: vec![lane],
            name: "worker".to_owned(),
            instance: format!("{}-{}", std::process::id(), Uuid::new_v4().simple()),
            capabilities: BTreeSet::new(),
            concurrency: 64,
            lease: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            prefetch: true,
        };
        Self { fabric, settings, handlers: Handlers::default(), shared: Shared::new() }
    }

    /// Handles a kind of work with an async function: `async fn(Context, Input) -> Result<Output>`.
    pub fn handle<Input, Output>(
        mut self,
        kind: impl Into<String>,
        handler: impl Handler<Input, Output>,
    ) -> Self
    where
        Input: DeserializeOwned + Send + 'static,
        Output: Serialize + Send + 'static,
    {
        self.handlers.add(kind.into(), handler);
        self
    }

    /// Gives handlers something to share: a pool, a client, a setting. They find it by its type.
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Self {
        self.shared.insert(TypeId::of::<T>(), Arc::new(state));
        self
    }

    /// Works on this lane as well.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.settings.lanes.push(lane.into());
        self
    }

    /// What the pool of workers is called; `worker` unless said.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// What this process is called; unique unless said.
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.settings.instance = instance.into();
        self
    }

    /// Offers a capability: work that requires it may be given to this worker.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.settings.capabilities.insert(capability.into());
        self
    }

    /// Runs so many handlers at the same time; 64 unless said.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers.max(1);
        self
    }

    /// How long a lease lasts unless renewed: how soon others notice that this worker is gone.
    /// Leases are renewed after a third of it; 30 seconds unless said.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How long handlers that run when the worker is to stop may go on; 10 seconds unless said.
    /// What is not finished then is given back at once.
    pub fn drain(mut self, drain: Duration) -> Self {
        self.settings.drain = drain;
        self
    }

    /// Whether to prefetch: to claim a little more than there are slots for, while handlers are quick. It
    /// does unless this is false. Prefetched work that gets no slot within a second is released.
    pub fn prefetch(mut self, prefetch: bool) -> Self {
        self.settings.prefetch = prefetch;
        self
    }

    /// Works until the process is told to stop (SIGTERM or SIGINT), then stops in order; or until claiming
    /// is refused for good, which is the error it ends with.
    pub async fn run(self) -> Result<(), Error> {
        let mut running = self.start()?;
        let failed = tokio::select! {
            () = told_to_stop() => None,
            error = running.failed() => Some(error),
        };
        tracing::info!("stopping: running work finishes or is given back");
        let stopped = running.stop().await;
        failed.map_or(stopped, Err)
    }

    /// Works in the background.
    pub fn start(self) -> Result<Running, Error> {
        let ask = self.ask()?;
        let crew = Arc::new(Crew {
            slots: Arc::new(Semaphore::new(self.settings.concurrency)),
            held: Held::default(),
            pace: Pace::default(),
            trouble: Mutex::default(),
            freed: Notify::new(),
            tasks: TaskTracker::new(),
            draining: CancellationToken::new(),
            ended: CancellationToken::new(),
            dropped: CancellationToken::new(),
            fabric: self.fabric,
            handlers: self.handlers,
            shared: Arc::new(self.shared),
            settings: self.settings,
        });
        let renewing = tokio::spawn(held::keep(Arc::clone(&crew)));
        let claiming = tokio::spawn(claims::claim(Arc::clone(&crew), ask));
        Ok(Running { crew, claiming: Some(claiming), renewing })
    }

    /// Checks everything that was said.
    fn ask(&self) -> Result<ClaimAsk, Error> {
        let settings = &self.settings;
        let worker = ff_core::execution::Worker {
            id: WorkerId::new(settings.name.clone())?,
            instance: WorkerInstanceId::new(settings.instance.clone())?,
        };
        let lanes = settings.lanes.iter().cloned().map(LaneId::new);
        let lanes = lanes.collect::<Result<Vec<_>, Rejection>>()?;
        let ask = ClaimAsk {
            capabilities: settings.capabilities.clone(),
            lease_ttl_ms: settings.lease_ttl_ms(),
            ..ClaimAsk::new(Uuid::now_v7(), worker, lanes)
        };
        ask.validate()?;
        Ok(ask)
    }
}

impl Settings {
    fn lease_ttl_ms(&self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A worker at work, for its tasks.
struct Crew {
    fabric: Arc<dyn Fabric>,
    settings: Settings,
    handlers: Handlers,
    shared: Arc<Shared>,
    /// One for each handler that may run.
    slots: Arc<Semaphore>,
    /// What is held.
    held: Held,
    pace: Pace,
    /// Why it cannot claim at this moment.
    trouble: Mutex<Option<Error>>,
    /// A handler has ended.
    freed: Notify,
    /// One for each execution that is held.
    tasks: TaskTracker,
    /// Nothing is claimed or started any more.
    draining: CancellationToken,
    /// Nothing runs any more: what does is given back.
    ended: CancellationToken,
    /// Everything is dropped where it stands.
    dropped: CancellationToken,
}

/// A worker at work. Dropping it stops it where it is, which leaves its leases to run out; better to
/// [`stop`](Self::stop) it.
pub struct Running {
    crew: Arc<Crew>,
    claiming: Option<JoinHandle<Result<(), Error>>>,
    renewing: JoinHandle<()>,
}

impl Running {
    /// Stops in order: claims nothing more, gives back what was not started, lets handlers finish
    /// for a while and then gives back the rest. Says what went wrong, if the worker had to give up.
    pub async fn stop(mut self) -> Result<(), Error> {
        let crew = &self.crew;
        crew.draining.cancel();
        crew.tasks.close();
        let claimed = match self.claiming.take() {
            Some(claiming) => claiming.await.unwrap_or(Ok(())),
            None => Ok(()),
        };
        if tokio::time::timeout(crew.settings.drain, crew.tasks.wait()).await.is_err() {
            crew.ended.cancel();
            crew.tasks.wait().await;
        }
        claimed
    }

    /// Whether it can claim, for a probe: the reason if its last claim was not answered.
    pub fn health(&self) -> Result<(), Error> {
        let trouble = self.crew.trouble.lock().expect("no holder of this lock panics");
        trouble.clone().map_or(Ok(()), Err)
    }

    /// How many executions it holds at this moment.
    pub fn held(&self) -> usize {
        self.crew.held.len()
    }

    /// Waits until it gives up by itself, because claiming is refused for good.
    pub async fn failed(&mut self) -> Error {
        let Some(claiming) = self.claiming.as_mut() else { return std::future::pending().await };
        let ended = claiming.await;
        self.claiming = None;
        match ended {
            Ok(Err(error)) => error,
            Ok(Ok(())) => std::future::pending().await,
            Err(panic) => Error::permanent(format!("the task that claims has failed: {panic}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.crew.draining.cancel();
        self.crew.dropped.cancel();
        self.renewing.abort();
    }
}
