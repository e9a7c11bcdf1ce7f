//! What a handler is given besides its input: durable steps, sleeps, time and chance that are
//! remembered, children, waits for signals and people, shared state, and the news that it should stop.

mod children;
mod waits;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ff_core::decide::delay::Delay;
use ff_core::decide::progress::ReportProgress;
use ff_core::decide::steps::RecordSteps;
use ff_core::execution::Failure;
use ff_core::flow::EdgeWord;
use ff_core::step::{Step, StepKind, StepOutcome};
use ff_core::text::{Category, StepName};
use ff_core::{ExecutionId, Fence, FlowId, Millis};
use serde::de::DeserializeOwned;
use tokio::sync::{OnceCell, oneshot};
use tokio_util::sync::CancellationToken;

use crate::Error;
use crate::fabric::{Fabric, Input, Inputs, Report, Work};
use crate::journal::{Journal, Operation};
use crate::pauses::persistently;
use crate::step::{StepCall, StepFn, digest, token};

pub use waits::{ApprovalCall, Decision, Place, SuspendCall, Voice, WaitFor, Waited};
pub use waits::{Waitpoint, WaitpointCall, is_wait_timeout};

/// Steps that one command carries, at most, and bytes of their results if they are several.
const RECORD_STEPS_MAX: usize = 500;
const RECORD_BYTES_MAX: usize = 512 << 10;

/// State that handlers share, by type.
pub type Shared = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

/// Why a handler is not run any further.
#[derive(Debug)]
pub enum Interrupt {
    /// It was given back, to go on later.
    Paused,
    /// Nothing it says will be heard any more, or must be.
    Stopped(Error),
}

/// What a handler is given besides its input. Clones are the same context.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    fabric: Arc<dyn Fabric>,
    work: Work,
    /// The flow it is a member of, from the start or since it has children.
    flow: OnceLock<FlowId>,
    journal: Journal,
    shared: Arc<Shared>,
    /// What those gave it that it waited for, once it was asked for.
    inputs: OnceCell<Inputs>,
    /// Held while children or signals are waited for.
    waits: tokio::sync::Mutex<()>,
    cancelled: CancellationToken,
    interrupt: Mutex<Option<oneshot::Sender<Interrupt>>>,
}

impl Context {
    /// For work that is held; also where to hear that its handler is not to be run any further.
    pub(crate) fn new(
        fabric: Arc<dyn Fabric>,
        work: Work,
        journal: Journal,
        shared: Arc<Shared>,
        cancelled: CancellationToken,
    ) -> (Self, oneshot::Receiver<Interrupt>) {
        let (sender, interrupted) = oneshot::channel();
        let interrupt = Mutex::new(Some(sender));
        let inner = Inner {
            flow: work.flow.map_or_else(OnceLock::new, OnceLock::from),
            inputs: OnceCell::new(),
            waits: tokio::sync::Mutex::default(),
            fabric,
            work,
            journal,
            shared,
            cancelled,
            interrupt,
        };
        (Self(Arc::new(inner)), interrupted)
    }

    /// The execution.
    pub fn execution_id(&self) -> ExecutionId {
        self.0.work.id
    }

    /// The flow that it is a member of. One that is in none is in its own from its first child on.
    pub fn flow_id(&self) -> Option<FlowId> {
        self.0.flow.get().copied()
    }

    /// Which attempt this is, from zero.
    pub fn attempt_index(&self) -> u32 {
        self.0.work.fence.attempt_index
    }

    /// What the attempt before this one failed with.
    pub fn last_failure(&self) -> Option<&Failure> {
        self.0.work.failure.as_ref()
    }

    /// The value of a tag.
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.0.work.tags.get(key).map(String::as_str)
    }

    /// What an upstream gave it: its result, by the name under which this node [`reads`] it. Read
    /// an `Option` where the upstream may have ended without one, or was not needed. A name that
    /// this node does not read is an error.
    ///
    /// [`reads`]: crate::Node::reads
    pub async fn input<T: DeserializeOwned>(&self, name: impl AsRef<str>) -> Result<T, Error> {
        let (id, name) = (self.0.work.id, name.as_ref());
        let read = || persistently(|| self.0.fabric.inputs(id));
        let inputs = self.0.inputs.get_or_try_init(read).await?;
        let category = Category::new("input").expect("a valid category");
        let refuse = |said: String| Error::permanent(said).in_category(category.clone());
        let Some(Input { edge, result }) = inputs.get(name) else {
            let names = inputs.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let names = if names.is_empty() { "none".to_owned() } else { names };
            return Err(refuse(format!("there is no input {name:?}; there are: {names}")));
        };
        let bytes = result.as_ref().map_or(&b"null"[..], |given| &given.bytes);
        serde_json::from_slice(bytes).map_err(|error| {
            refuse(match (result, edge) {
                (Some(_), _) => format!("the input {name:?} does not fit: {error}"),
                (None, EdgeWord::Satisfied) => {
                    format!("the input {name:?} is not there: who gives it left no result")
                }
                (None, EdgeWord::Staged | EdgeWord::Unsatisfied | EdgeWord::Impossible) => {
                    format!("the input {name:?} is not there: its edge is {edge}")
                }
            })
        })
    }

    /// State that was given to the worker.
    ///
    /// # Panics
    ///
    /// If the worker was given nothing of this type: every execution would fail alike.
    pub fn state<T: Send + Sync + 'static>(&self) -> Arc<T> {
        let found = self.0.shared.get(&TypeId::of::<T>()).map(Arc::clone);
        let found = found.and_then(|state| state.downcast::<T>().ok());
        found.unwrap_or_else(|| {
            let name = std::any::type_name::<T>();
            panic!("the worker has no state of type {name}; add it with Worker::state")
        })
    }

    /// Fires when the execution was cancelled or its lease is lost. What the handler writes from then on
    /// is refused. It may clean up until its next await, where it is dropped.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.cancelled
    }

    /// Says how far the work is. The last word counts; it is not part of the journal.
    pub async fn progress(&self, percent: u8, message: impl Into<String>) -> Result<(), Error> {
        let (id, fence) = self.held();
        let (percent, message) = (Some(percent), Some(message.into()));
        let progress = ReportProgress { id, fence, percent, message, after: None };
        self.0.fabric.report(Report::Progress(progress)).await
    }

    /// A step: runs once, and what became of it is remembered. When the handler runs again, after a
    /// crash, a retry or a sleep, its result is there and the step is not taken again. So is its failure,
    /// if the handler went on after it; an attempt that ends with it takes the step again.
    ///
    /// Steps are known by their order: a handler must take the same ones in the same order every
    /// time. Await it for its result; say how it is retried before that.
    pub fn step<T, M, F: StepFn<T, M>>(
        &self,
        name: impl Into<String>,
        run: F,
    ) -> StepCall<'_, T, M, F> {
        StepCall::new(self, self.0.journal.position(), name.into(), run)
    }

    /// Gives the worker's slot back for so long. The handler runs again afterwards, from the top,
    /// with everything it recorded.
    pub async fn sleep(&self, length: Duration) {
        let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        self.sleep_to(|now| now.plus(ms)).await;
    }

    /// Gives the worker's slot back until then.
    pub async fn sleep_until(&self, then: SystemTime) {
        let until = millis(then);
        self.sleep_to(|_| until).await;
    }

    async fn sleep_to(&self, until: impl Fn(Millis) -> Millis) {
        let (at, kind) = (self.0.journal.position(), StepKind::Sleep);
        let operation = Operation { at, kind, name: name_of("sleep") };
        let begun = self.or_stop(self.0.journal.begun(&operation)).await.map(|(_, until)| until);
        if begun.is_some_and(|until| until <= self.0.work.claimed_at) {
            return begun.into_iter().for_each(|until| self.0.journal.see(until));
        }
        let now = self.or_stop(persistently(|| self.0.fabric.now()).await).await;
        let (delay_until, steps) = match begun {
            Some(until) if until <= now => return self.0.journal.see(until),
            // Woken too early, as by a replay.
            Some(until) => (until, self.few_kept().await),
            None => {
                let until = until(now);
                let step = self.0.journal.step(&operation, (StepOutcome::Open, 0), &until);
                let step = Step { time: Some(until), ..self.or_stop(step).await };
                self.few_kept().await;
                (until, self.0.journal.with_all(step))
            }
        };
        let (id, fence) = self.held();
        let report = Report::Delay(Delay { id, fence, delay_until, steps });
        self.or_stop(persistently(|| self.0.fabric.report(report.clone())).await).await;
        self.interrupt::<()>(Interrupt::Paused).await;
    }

    /// The time, the same whenever the handler runs again: that of the latest outcome it has seen, or when
    /// the execution began. It goes on with every step, sleep and wait.
    pub async fn now(&self) -> SystemTime {
        self.or_stop(self.0.journal.check_nested("now", "now")).await;
        let ms = u64::try_from(self.0.journal.now().0).unwrap_or(0);
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    /// A random number, the same for this name whenever the handler runs again.
    pub fn random(&self, name: impl AsRef<str>) -> u64 {
        let bits = u128::from_be_bytes(self.chance("random", name.as_ref()));
        u64::try_from(bits >> 64).expect("half of the bits fit")
    }

    /// A UUID, the same for this name whenever the handler runs again, and no other's.
    pub fn uuid(&self, name: impl AsRef<str>) -> uuid::Uuid {
        uuid::Builder::from_random_bytes(self.chance("uuid", name.as_ref())).into_uuid()
    }

    fn chance(&self, what: &str, name: &str) -> [u8; 16] {
        let (id, generation) = (self.0.work.id, self.0.journal.generation());
        digest(&format!("{id}#{generation} {what} {name}"))
    }

    fn fabric(&self) -> &Arc<dyn Fabric> {
        &self.0.fabric
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.0.journal
    }

    /// The token of an operation: the same in every attempt.
    pub(crate) fn token(&self, at: u32) -> uuid::Uuid {
        token(self.0.work.id, self.0.journal.generation(), &at.to_string())
    }

    /// Records a step; does not come back if that is refused.
    pub(crate) async fn record(&self, step: Step) {
        self.record_all(self.0.journal.with(step)).await;
    }

    async fn record_all(&self, steps: Vec<Step>) {
        let (id, fence) = self.held();
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |step: &&Step| {
                bytes += step.bytes.len();
                bytes <= RECORD_BYTES_MAX
            };
            let count = rest.iter().take(RECORD_STEPS_MAX).take_while(fits).count().max(1);
            let (now, later) = rest.split_at(count);
            let record = RecordSteps { id, fence, steps: now.to_vec() };
            let report = || self.0.fabric.report(Report::Steps(record.clone()));
            self.or_stop(persistently(report).await).await;
            self.0.journal.recorded(now);
            rest = later;
        }
        // The handler sees them as a later run will, and their time.
        for step in steps {
            self.0.journal.learn(step);
        }
    }

    /// What is kept, if a command has room for it; else it is recorded by itself.
    pub(crate) async fn few_kept(&self) -> Vec<Step> {
        let kept = self.0.journal.kept();
        if kept.len() <= RECORD_STEPS_MAX
            && kept.iter().map(|step| step.bytes.len()).sum::<usize>() <= RECORD_BYTES_MAX
        {
            return kept;
        }
        self.record_all(kept).await;
        Vec::new()
    }

    /// Records what could come out otherwise when it is done again, before an effect rests on it that was
    /// asked for when `drawn` numbers were drawn.
    pub(crate) async fn record_what_is_unsure(&self, drawn: u32) {
        let steps = self.0.journal.unsure(drawn);
        if !steps.is_empty() {
            self.record_all(steps).await;
        }
    }

    /// What was found; does not come back with an error, because a handler must not go on after it
    /// whatever it does with errors.
    pub(crate) async fn or_stop<T>(&self, found: Result<T, Error>) -> T {
        match found {
            Ok(found) => found,
            Err(error) => self.interrupt(Interrupt::Stopped(error)).await,
        }
    }

    /// Does not come back once the execution is lost: no effect begins then.
    pub(crate) async fn unless_lost(&self) {
        if self.0.cancelled.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// Has the handler dropped where it stands.
    async fn interrupt<T>(&self, why: Interrupt) -> T {
        let sender = self.0.interrupt.lock().expect("no holder of this lock panics").take();
        if let Some(sender) = sender {
            // Whoever ran the handler is gone already.
            drop(sender.send(why));
        }
        std::future::pending().await
    }

    fn held(&self) -> (ExecutionId, Fence) {
        (self.0.work.id, self.0.work.fence)
    }
}

fn name_of(name: &str) -> StepName {
    StepName::new(name).expect("a valid name")
}

fn millis(time: SystemTime) -> Millis {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
