//! The operations as one API, and the loops that keep work moving.
//!
//! An [`Engine`] stands before one store. Calls made at the same time travel together: nothing
//! under way, go at once; while a batch is under way, gather. A caller is answered only after
//! its commit. Any number of processes may run engines and duties on one store.
//!
//! What must stay true: the engine never decides; it validates, batches and waits.

/// The rows that a query is answered with, which are of its kind.
macro_rules! rows {
    ($kind:ident, $rows:expr) => {
        match $rows {
            Rows::$kind(rows) => rows,
            other => unreachable!("{} were asked for, not {other:?}", stringify!($kind)),
        }
    };
}

mod batcher;
mod claims;
mod duties;
mod endings;
mod error;
mod executions;
mod feed;
mod flows;
mod members;
mod starts;
mod suspensions;
mod work;

use std::sync::Arc;
use std::time::Duration;

use ff_core::command::{Command, Operation, Traffic};
use ff_core::time::Millis;
use ff_core::{Backend, StoreError};
use tokio::time::Instant;

use batcher::{Batcher, Bounds, Shared};
use claims::Claimer;
pub use duties::{DispatchReport, Duties, DutyPlan, Report};
pub use error::Error;
pub use executions::Context;
pub use feed::Consumer;
pub use flows::{Eligibility, FlowCancellation, FlowInput, Wait};
pub use suspensions::{Decision, LinkAsk, Offer};

/// How an engine batches and waits.
#[derive(Clone, Debug)]
pub struct Options {
    /// Calls that may wait in each queue; beyond it they are refused as `overloaded`.
    pub queue_calls_max: usize,
    /// Bytes that may wait in each queue; beyond it calls are refused as `overloaded`.
    pub queue_bytes_max: usize,
    /// Commands in one batch.
    pub batch_max: usize,
    /// Batches under way at the same time in each queue.
    pub flights: usize,
    /// The longest a waiting claim or reader trusts wake-ups before it looks again.
    pub poll: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue_calls_max: 10_000,
            queue_bytes_max: 64 << 20,
            batch_max: 256,
            flights: 2,
            poll: Duration::from_secs(5),
        }
    }
}

/// One store, with everything that can be done to it.
#[derive(Clone)]
pub struct Engine {
    backend: Arc<dyn Backend>,
    queues: Arc<Queues>,
    poll: Duration,
}

/// When a wait of this length is over; one that is absurdly long is over in a year.
fn deadline(wait: Duration) -> Instant {
    /// Longer than any process waits, and short enough to be added to any clock.
    const FOR_EVER: Duration = Duration::from_hours(365 * 24);
    Instant::now() + wait.min(FOR_EVER)
}

/// One queue per kind of traffic, so that renewals never wait behind payloads.
struct Queues {
    renew: Batcher,
    step: Batcher,
    finish: Batcher,
    create: Batcher,
    admin: Batcher,
    claims: Claimer,
    shared: Arc<Shared>,
}

impl Engine {
    /// An engine before `backend`. Must be called inside a Tokio runtime.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self::with_options(backend, &Options::default())
    }

    /// An engine with its own bounds.
    pub fn with_options(backend: Arc<dyn Backend>, options: &Options) -> Self {
        let bounds = Bounds {
            calls: options.queue_calls_max.max(1),
            bytes: options.queue_bytes_max,
            batch: options.batch_max.clamp(1, ff_core::limits::BATCH_MAX),
            flights: options.flights.max(1),
            crowd: 1,
            pair: usize::MAX,
            turns: 1,
        };
        // Callers released by one commit usually call again at once: some turns of the scheduler let
        // them share a batch. A second batch goes beside one under way only when many wait.
        let together =
            |crowd: usize, turns| Bounds { crowd: bounds.batch.min(crowd), turns, ..bounds };
        let shared = Arc::<Shared>::default();
        let start = |bounds| Batcher::start(Arc::clone(&backend), bounds, Arc::clone(&shared));
        let batcher = || start(bounds);
        let finish = start(Bounds { pair: 4, ..together(256, 16) });
        let (store, known) = (Arc::clone(&backend), Arc::clone(&shared));
        let claims = Claimer::start(store, together(1, 8), finish.clone(), known);
        let pairs = Bounds { pair: 8, ..together(64, 8) };
        let (renew, step, create, admin) =
            (batcher(), start(together(64, 8)), start(pairs), batcher());
        let queues = Queues { renew, step, finish, create, admin, claims, shared };
        Self { backend, queues: Arc::new(queues), poll: options.poll }
    }

    /// Sends any command and waits for its answer.
    ///
    /// Dropping the future does not take the command back.
    pub async fn execute<C: Operation>(&self, command: C) -> Result<C::Reply, Error> {
        let mut outcomes = self.execute_all(vec![command]).await?;
        outcomes.pop().expect("one outcome for one command").map_err(Error::from)
    }

    /// Sends commands of one kind together; answers in their order. A refused one does not
    /// affect the others. More than [`BATCH_MAX`](ff_core::limits::BATCH_MAX) go one batch after
    /// the other; after an error, those of earlier batches are done.
    pub async fn execute_all<C: Operation>(
        &self,
        commands: Vec<C>,
    ) -> Result<Vec<Result<C::Reply, ff_core::Rejection>>, Error> {
        let config = self.backend.config();
        let mut answers = Vec::with_capacity(commands.len());
        let mut valid: Vec<Command> = Vec::with_capacity(commands.len());
        for command in commands {
            answers.push(command.validate(config).err().map(Err));
            if answers.last().is_some_and(Option::is_none) {
                valid.push(command.into());
            }
        }
        let queue = match C::TRAFFIC {
            Traffic::Renew => &self.queues.renew,
            Traffic::Step => &self.queues.step,
            Traffic::Finish => &self.queues.finish,
            Traffic::Create => &self.queues.create,
            Traffic::Admin => &self.queues.admin,
        };
        let mut sent = Vec::with_capacity(valid.len());
        while !valid.is_empty() {
            let rest = valid.split_off(valid.len().min(ff_core::limits::BATCH_MAX));
            sent.extend(queue.send(valid).await?);
            valid = rest;
        }
        let mut sent = sent.into_iter().map(|outcome| {
            outcome.map(|reply| C::reply(reply).expect("a command is answered in its own kind"))
        });
        Ok(answers
            .into_iter()
            .map(|refused| {
                refused.unwrap_or_else(|| sent.next().expect("an outcome for each command sent"))
            })
            .collect())
    }

    /// The store behind the engine.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// The store's time.
    pub async fn server_time_ms(&self) -> Result<Millis, StoreError> {
        self.backend.now().await
    }
}
