//! Waiting for signals, people and callbacks.
//!
//! A wait gives the worker's slot back; the handler runs again when it is over. Two steps of the journal
//! belong to it: the question, recorded by the commit that suspends, and the answer. A handler that
//! crashes between the two finds the answer where its suspension left it. That nobody came in time is
//! recorded only with what follows it: if the attempt fails with that, the next one asks again.

mod approval;
mod mailbox;

use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use ff_core::condition::{Distinct, ResumeCondition};
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::execution::AttemptOutcome;
use ff_core::step::{StepKind, StepOutcome};
use ff_core::suspension::{CloseReason, RequestedBy, SuspensionReason, TimeoutBehavior};
use ff_core::text::{Category, SignalName, StepName, WaitpointKey};
use ff_core::{Code, Rejection};
use ff_wire::SignalLine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Context, Interrupt};
use crate::Error;
use crate::error::Nature;
use crate::journal::{Operation, Recalled};
use crate::pauses::persistently;

pub use approval::{ApprovalCall, Decision, Voice};
pub use mailbox::{Waitpoint, WaitpointCall};

/// Where to wait: at a new waitpoint of this key, or at one that was made before.
pub enum Place {
    /// A new one.
    Fresh(String),
    /// One that was made before.
    Pending(Uuid, WaitpointKey),
}

impl Place {
    fn key(&self) -> Result<WaitpointKey, Rejection> {
        match self {
            Self::Fresh(key) => WaitpointKey::new(key.as_str()),
            Self::Pending(_, key) => Ok(key.clone()),
        }
    }
}

impl From<&str> for Place {
    fn from(key: &str) -> Self {
        Self::Fresh(key.to_owned())
    }
}

impl From<String> for Place {
    fn from(key: String) -> Self {
        Self::Fresh(key)
    }
}

impl From<&Waitpoint> for Place {
    fn from(waitpoint: &Waitpoint) -> Self {
        Self::Pending(waitpoint.id(), waitpoint.key().clone())
    }
}

/// What came of a wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Waited {
    /// How it ended.
    pub how: CloseReason,
    /// The signals that ended it, in the order in which they came; none when an operator did.
    pub signals: Vec<SignalLine>,
}

impl Waited {
    /// Whether nobody came in time.
    pub fn timed_out(&self) -> bool {
        self.how == CloseReason::TimedOutAutoResume
    }

    /// The error that says so.
    fn in_time(self, what: &str) -> Result<Self, Error> {
        if !self.timed_out() {
            return Ok(self);
        }
        let category = Category::new(TIMED_OUT).expect("a valid category");
        Err(Error::permanent(format!("nobody came in time: {what}")).in_category(category))
    }
}

/// The category of the error that nobody came in time.
const TIMED_OUT: &str = "wait_timeout";

impl Error {
    /// Whether this is a wait that nobody ended in time.
    pub fn is_wait_timeout(&self) -> bool {
        is_wait_timeout(self)
    }
}

/// Whether an error is, or was made of, a wait that nobody ended in time.
pub fn is_wait_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    Nature::of(error).category.is_some_and(|category| category.as_str() == TIMED_OUT)
}

/// The question, as it is recorded.
#[derive(Serialize, Deserialize)]
struct Asked {
    suspension_id: Uuid,
    /// Whether only the last of the signals that end it matters, and is kept.
    #[serde(default)]
    last: bool,
}

/// How a wait is asked for.
struct Ask {
    name: String,
    waitpoints: Vec<Place>,
    condition: ResumeCondition,
    reason: SuspensionReason,
    timeout: Option<Duration>,
    behavior: TimeoutBehavior,
    resume_delay_ms: u64,
    last: bool,
}

impl Context {
    /// Waits for a signal at a waitpoint, and reads what it carries. Give it the name of a new
    /// waitpoint, or one that was made before with [`Context::waitpoint`].
    ///
    /// The worker's slot is given back meanwhile, as with a sleep. A signal without a payload is read
    /// as JSON `null`: ask for an `Option`, or for `()`.
    pub fn wait_for<T>(&self, place: impl Into<Place>) -> WaitFor<'_, T> {
        let at = self.journal().position();
        WaitFor {
            context: self,
            at,
            place: place.into(),
            signal: None,
            count: None,
            timeout: None,
            behavior: TimeoutBehavior::AutoResume,
            reason: SuspensionReason::WaitingForSignal,
            of: PhantomData,
        }
    }

    /// Waits for whatever `condition` says, at several waitpoints if it names several. If signals that
    /// arrived before are enough, the handler goes on at once and keeps its slot.
    pub fn try_suspend(&self, condition: ResumeCondition) -> SuspendCall<'_> {
        let at = self.journal().position();
        let keys = condition.keys().into_iter().map(|key| Place::Fresh(key.to_string()));
        let mut waitpoints: Vec<_> = keys.collect();
        if waitpoints.is_empty() {
            waitpoints.push(Place::Fresh("suspended".to_owned()));
        }
        let ask = Ask {
            name: "suspend".to_owned(),
            waitpoints,
            condition,
            reason: SuspensionReason::WaitingForSignal,
            timeout: None,
            behavior: TimeoutBehavior::AutoResume,
            resume_delay_ms: 0,
            last: false,
        };
        SuspendCall { context: self, at, ask, unnamed: None }
    }

    /// What came of a wait, now or before.
    async fn waited(&self, at: u32, ask: Ask) -> Result<Waited, Error> {
        let name = self.or_stop(ask.step_name()).await;
        let operation = Operation { at, kind: StepKind::Wait, name };
        let journal = self.journal();
        let known = || journal.recall::<Waited>(&operation);
        if let Some(Recalled::Done(waited)) = self.or_stop(known()).await {
            return Ok(waited);
        }
        // A suspension suspends the whole execution: side by side, one wait follows another.
        let _turn = self.0.waits.lock().await;
        let for_its_time = ask.condition.wants_a_deadline();
        self.settle(at).await;
        if let Some(Recalled::Done(waited)) = self.or_stop(known()).await {
            return Ok(waited);
        }
        let begun = self.or_stop(journal.begun(&operation)).await;
        let asked = begun.and_then(|(bytes, _)| serde_json::from_slice::<Asked>(&bytes).ok());
        let mut waited = match &asked {
            Some(asked) => self.answer(asked).await,
            None => None,
        };
        if waited.is_none() {
            let asked = self.ask(&operation, ask, asked).await?;
            waited = self.answer(&asked).await;
        }
        let waited = waited.ok_or_else(|| {
            let said =
                format!("what {name:?} waits for is not there", name = operation.name.as_str());
            Rejection::new(Code::AlreadySuspended, said).into()
        });
        let waited = self.or_stop(waited).await;
        let step = journal.step(&operation, (StepOutcome::Done, 0), &waited);
        let step = self.or_stop(step).await;
        if waited.timed_out() && !for_its_time {
            journal.keep(step, true);
        } else {
            self.record(step).await;
        }
        Ok(waited)
    }

    /// Records what came of another wait, before the next suspension takes the place of the one that
    /// knows it: waits side by side may take their turns in another order than before.
    async fn settle(&self, but: u32) {
        let journal = self.journal();
        for (operation, bytes) in journal.open(StepKind::Wait) {
            let Ok(asked) = serde_json::from_slice::<Asked>(&bytes) else { continue };
            if operation.at == but {
                continue;
            }
            if let Some(waited) = self.answer(&asked).await {
                let step = journal.step(&operation, (StepOutcome::Done, 0), &waited);
                let step = self.or_stop(step).await;
                self.record(step).await;
            }
        }
    }

    /// Suspends; comes back only if what is waited for had happened. A question that was recorded
    /// and never answered, because the execution ended instead, is asked again after a replay.
    async fn ask(
        &self,
        operation: &Operation,
        ask: Ask,
        before: Option<Asked>,
    ) -> Result<Asked, Error> {
        let (id, fence) = self.held();
        let deadline = match ask.timeout {
            None => None,
            Some(length) => {
                let now = self.or_stop(persistently(|| self.0.fabric.now()).await).await;
                Some(now.plus(u64::try_from(length.as_millis()).unwrap_or(u64::MAX)))
            }
        };
        let again = before.is_some();
        let waitpoints = bindings(ask.waitpoints, again)?;
        let journal = self.journal();
        let asked =
            before.unwrap_or_else(|| Asked { suspension_id: Uuid::now_v7(), last: ask.last });
        let kept = self.few_kept().await;
        let steps = if again {
            kept
        } else {
            let step = journal.step(operation, (StepOutcome::Open, 0), &asked);
            journal.with_all(self.or_stop(step).await)
        };
        let suspend = Suspend {
            id,
            fence,
            suspension: asked.suspension_id,
            waitpoints,
            condition: ask.condition,
            resume_delay_ms: ask.resume_delay_ms,
            reason: ask.reason,
            requested_by: RequestedBy::Worker,
            deadline,
            timeout_behavior: ask.behavior,
            continuation: None,
            idempotency_key: None,
            steps,
        };
        let refused = match persistently(|| self.0.fabric.suspend(suspend.clone())).await {
            Ok(true) => {
                journal.recorded(&suspend.steps);
                // If this wait is dropped, the next one is to find its answer.
                suspend.steps.into_iter().for_each(|step| journal.learn(step));
                return Ok(asked);
            }
            Ok(false) => self.interrupt(Interrupt::Paused).await,
            Err(error) => error,
        };
        // What its author asked for makes no sense: he is to be told, like any caller.
        let his = [Code::InvalidInput, Code::WaitpointNotPending, Code::PendingWaitpointExpired];
        if !his.iter().any(|code| refused.is(*code)) {
            return self.interrupt(Interrupt::Stopped(refused)).await;
        }
        Err(refused)
    }

    /// What a suspension ended with; nothing when the execution ended instead, and runs again.
    async fn answer(&self, asked: &Asked) -> Option<Waited> {
        let (id, _) = self.held();
        let last = persistently(|| self.0.fabric.suspension(id)).await;
        let last =
            self.or_stop(last).await.filter(|last| last.suspension_id == asked.suspension_id)?;
        let how = match last.close_reason? {
            CloseReason::TimedOutAutoResume if self.failed_since(last.attempt_index).await => {
                return None;
            }
            how @ (CloseReason::Resumed | CloseReason::TimedOutAutoResume) => how,
            CloseReason::Cancelled
            | CloseReason::TimedOutFail
            | CloseReason::TimedOutCancel
            | CloseReason::TimedOutExpire
            | CloseReason::NeverCommitted
            | CloseReason::ProactiveClose => return None,
        };
        let observed = persistently(|| self.0.fabric.observed(id, last.attempt_index)).await;
        let mut signals = self.or_stop(observed).await;
        if asked.last {
            // Whoever has the token may have sent more than a step can hold.
            signals.drain(..signals.len().saturating_sub(1));
        }
        Some(Waited { how, signals: signals.into_iter().map(SignalLine::from).collect() })
    }
}

impl Context {
    /// Whether an attempt that waited, or one that followed it, has failed, and this one is to try again.
    /// Those that were only taken over have not: this one goes on where they stopped.
    async fn failed_since(&self, attempt_index: u32) -> bool {
        let (id, own) = (self.execution_id(), self.attempt_index());
        if attempt_index == own {
            return false;
        }
        let history = self.or_stop(persistently(|| self.0.fabric.history(id)).await).await;
        let taken_over = history.attempts.iter().filter(|line| {
            (attempt_index..own).contains(&line.index)
                && line.outcome == Some(AttemptOutcome::Interrupted)
        });
        // One of which nothing is told any more counts as failed.
        taken_over.count() < (attempt_index..own).len()
    }
}

/// The waitpoints of a suspension. What was handed out before it is asked for again is closed by now.
fn bindings(places: Vec<Place>, again: bool) -> Result<Vec<Binding>, Rejection> {
    let fresh = |key| Binding::Fresh { id: Uuid::now_v7(), key };
    let binding = |place| match place {
        Place::Fresh(key) => Ok(fresh(WaitpointKey::new(key)?)),
        Place::Pending(_, key) if again => Ok(fresh(key)),
        Place::Pending(id, _) => Ok(Binding::Pending { id }),
    };
    places.into_iter().map(binding).collect()
}

impl Ask {
    fn step_name(&self) -> Result<StepName, Error> {
        Ok(StepName::new(self.name.as_str())?)
    }
}

/// A wait for a signal; await it for what the signal carries.
#[must_use = "nothing is waited for until it is awaited"]
pub struct WaitFor<'c, T> {
    context: &'c Context,
    at: u32,
    place: Place,
    signal: Option<String>,
    count: Option<(u32, Distinct)>,
    timeout: Option<Duration>,
    behavior: TimeoutBehavior,
    reason: SuspensionReason,
    of: PhantomData<fn() -> T>,
}

impl<T> WaitFor<'_, T> {
    /// Only signals of this name.
    pub fn signal(mut self, name: impl Into<String>) -> Self {
        self.signal = Some(name.into());
        self
    }

    /// So many signals, each counted once by what `distinct` says; the last one is read.
    pub fn count(mut self, n: u32, distinct: Distinct) -> Self {
        self.count = Some((n, distinct));
        self
    }

    /// For so long. When nobody comes in time, the answer is an error that
    /// [says so](Error::is_wait_timeout), unless [`on_timeout`](Self::on_timeout) asks for something
    /// else.
    pub fn timeout(mut self, length: Duration) -> Self {
        self.timeout = Some(length);
        self
    }

    /// What happens to the execution when nobody comes in time, instead of going on.
    pub fn on_timeout(mut self, behavior: TimeoutBehavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Why it waits, for those who look.
    pub fn reason(mut self, reason: SuspensionReason) -> Self {
        self.reason = reason;
        self
    }

    fn into_ask(self) -> Result<Ask, Error> {
        let key = self.place.key()?;
        let signal = self.signal.map(SignalName::new).transpose()?;
        let name = key.to_string();
        let condition = match self.count {
            None => ResumeCondition::Single { waitpoint: key, signal },
            Some((n, distinct)) => {
                ResumeCondition::Count { n, distinct, signal, waitpoints: vec![key] }
            }
        };
        Ok(Ask {
            name,
            waitpoints: vec![self.place],
            condition,
            reason: self.reason,
            timeout: self.timeout,
            behavior: self.behavior,
            resume_delay_ms: 0,
            last: true,
        })
    }
}

impl<'c, T: DeserializeOwned + Send + 'c> IntoFuture for WaitFor<'c, T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (context, at) = (self.context, self.at);
            let ask = self.into_ask()?;
            let what = ask.name.clone();
            let waited = context.waited(at, ask).await?.in_time(&what)?;
            let carried = waited.signals.into_iter().next_back();
            let carried = carried.map(SignalLine::into_payload).transpose()?.flatten();
            let bytes = carried.as_ref().map_or(&b"null"[..], |payload| &payload.bytes);
            serde_json::from_slice(bytes).map_err(|error| {
                Error::permanent(format!("the signal at {what:?} does not fit: {error}"))
            })
        })
    }
}

/// A wait for whatever a condition says; await it for what came.
#[must_use = "nothing is waited for until it is awaited"]
pub struct SuspendCall<'c> {
    context: &'c Context,
    at: u32,
    ask: Ask,
    /// A waitpoint at which it cannot wait.
    unnamed: Option<String>,
}

impl SuspendCall<'_> {
    /// Waits at a waitpoint that was made before. A condition that does not name its key is refused: nobody
    /// could answer.
    pub fn at(mut self, waitpoint: &Waitpoint) -> Self {
        let key = waitpoint.key().to_string();
        let named = |place: &&mut Place| match place {
            Place::Fresh(own) => *own == key,
            Place::Pending(own, _) => *own == waitpoint.id(),
        };
        match self.ask.waitpoints.iter_mut().find(named) {
            Some(place) => *place = waitpoint.into(),
            None => self.unnamed = Some(key),
        }
        // Only the first of several may have been made before.
        self.ask.waitpoints.sort_by_key(|place| matches!(place, Place::Fresh(_)));
        self
    }

    /// For so long; what came then says that [nobody did](Waited::timed_out), unless
    /// [`on_timeout`](Self::on_timeout) asks for something else.
    pub fn timeout(mut self, length: Duration) -> Self {
        self.ask.timeout = Some(length);
        self
    }

    /// What happens to the execution when nobody comes in time, instead of going on.
    pub fn on_timeout(mut self, behavior: TimeoutBehavior) -> Self {
        self.ask.behavior = behavior;
        self
    }

    /// Why it waits, for those who look.
    pub fn reason(mut self, reason: SuspensionReason) -> Self {
        self.ask.reason = reason;
        self
    }

    /// How long after it has what it waits for it goes on.
    pub fn resume_delay(mut self, length: Duration) -> Self {
        self.ask.resume_delay_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        self
    }
}

impl<'c> IntoFuture for SuspendCall<'c> {
    type Output = Result<Waited, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            if let Some(key) = self.unnamed {
                let said = format!("the condition does not name the waitpoint {key:?}");
                return Err(Rejection::new(Code::InvalidInput, said).into());
            }
            self.context.waited(self.at, self.ask).await
        })
    }
}
