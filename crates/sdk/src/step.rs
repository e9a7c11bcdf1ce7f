//! One step of a handler: run once, retried as told, remembered.

use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use ff_core::ExecutionId;
use ff_core::execution::Failure;
use ff_core::limits::REASON_BYTES_MAX;
use ff_core::policy::{Backoff, Policy, RetryPolicy};
use ff_core::step::{Step, StepFailure, StepKind, StepOutcome};
use ff_core::text::{Category, StepName};
use ff_core::time::Entropy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::{Nature, chain, truncate};
use crate::journal::{Operation, Recalled};
use crate::{BoxError, Context, Error};

/// What a step may know about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepInfo {
    /// The same for every try of this step, in this attempt and every other: what an idempotent
    /// receiver recognises it by.
    pub token: Uuid,
    /// Its position among the operations of its handler.
    pub number: u32,
    /// Tries before this one, since the handler was started.
    pub retries: u32,
}

/// What a step runs: a closure that returns a future, with or without a [`StepInfo`].
pub trait StepFn<T, M>: Send {
    /// Runs it once.
    fn run(&mut self, info: StepInfo) -> impl Future<Output = Result<T, BoxError>> + Send;
}

/// Marks closures without an argument.
pub struct Plain<Fut, E>(PhantomData<fn() -> (Fut, E)>);
/// Marks closures with one.
pub struct Informed<Fut, E>(PhantomData<fn() -> (Fut, E)>);

impl<T, E, F, Fut> StepFn<T, Plain<Fut, E>> for F
where
    F: FnMut() -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
    E: Into<BoxError>,
{
    async fn run(&mut self, _: StepInfo) -> Result<T, BoxError> {
        self().await.map_err(Into::into)
    }
}

impl<T, E, F, Fut> StepFn<T, Informed<Fut, E>> for F
where
    F: FnMut(StepInfo) -> Fut + Send,
    Fut: Future<Output = Result<T, E>> + Send,
    E: Into<BoxError>,
{
    async fn run(&mut self, info: StepInfo) -> Result<T, BoxError> {
        self(info).await.map_err(Into::into)
    }
}

/// A step that is about to be taken: await it.
pub struct StepCall<'c, T, M, F> {
    context: &'c Context,
    at: u32,
    drawn: u32,
    name: String,
    run: F,
    retry: Option<RetryPolicy>,
    of: PhantomData<fn() -> (T, M)>,
}

impl<'c, T, M, F: StepFn<T, M>> StepCall<'c, T, M, F> {
    pub(crate) fn new(context: &'c Context, at: u32, name: String, run: F) -> Self {
        let drawn = context.journal().drawn();
        Self { context, at, drawn, name, run, retry: None, of: PhantomData }
    }

    /// Tries the step again before its handler sees it fail: so often, after a second, two, four
    /// and so on up to a minute.
    #[must_use]
    pub fn retries(self, times: u32) -> Self {
        let policy = RetryPolicy { max_retries: times, ..RetryPolicy::default() };
        self.retry(policy)
    }

    /// Tries the step again so often, after always the same time.
    #[must_use]
    pub fn retries_every(self, times: u32, delay: Duration) -> Self {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let backoff = Backoff::Fixed { delay_ms, jitter: false };
        self.retry(RetryPolicy { max_retries: times, backoff, ..RetryPolicy::default() })
    }

    /// Tries the step again as the policy says.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }
}

impl<'c, T, M, F> IntoFuture for StepCall<'c, T, M, F>
where
    T: Serialize + DeserializeOwned + Send + Sync + 'c,
    F: StepFn<T, M> + 'c,
    M: 'c,
{
    type Output = Result<T, BoxError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { context, at, drawn, name, run, retry, of: _ } = self;
        Box::pin(take(context, (at, drawn, name), run, retry))
    }
}

async fn take<T, M, F>(
    context: &Context,
    (at, drawn, name): (u32, u32, String),
    mut run: F,
    retry: Option<RetryPolicy>,
) -> Result<T, BoxError>
where
    T: Serialize + DeserializeOwned + Send + Sync,
    F: StepFn<T, M>,
{
    let name = context.or_stop(StepName::new(name).map_err(Error::from)).await;
    let operation = Operation { at, kind: StepKind::Run, name };
    let journal = context.journal();
    match context.or_stop(journal.recall(&operation)).await {
        Some(Recalled::Done(result)) => return Ok(result),
        Some(Recalled::Failed(failure)) => return Err(StepFailed::new(&operation, failure).into()),
        None => {}
    }
    // What it rests on is durable before it begins: it may do something and fail all the same.
    context.record_what_is_unsure(drawn).await;
    let policy = Policy { retry_policy: retry, ..Policy::default() };
    let token = context.token(at);
    let mut retries = 0;
    let begun = Instant::now();
    let ran_ms = || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let result = loop {
        context.unless_lost().await;
        let tried = run.run(StepInfo { token, number: at, retries });
        let error = match RUNNING.scope(operation.name.as_str().to_owned(), tried).await {
            Ok(result) => break result,
            Err(error) => error,
        };
        let Some(pause) = retry_after(&policy, &error, retries) else {
            return Err(failed(context, &operation, &error, ran_ms()).await.into());
        };
        tracing::info!(step = %operation.name, %error, retries, "a step is tried again");
        tokio::time::sleep(pause).await;
        retries += 1;
    };
    let outcome = (StepOutcome::Done, ran_ms());
    let step = context.or_stop(journal.step(&operation, outcome, &result)).await;
    // What a later run reads, so that both go on from the same value. One that cannot be read back fails
    // the execution for good: its effect took place.
    let result = context.or_stop(read_back(&operation, &step)).await;
    context.record(step).await;
    Ok(result)
}

/// The failure of a step, as every later run finds it once anything follows: until then it is kept, because
/// an attempt that ends with it is to take the step again.
async fn failed(
    context: &Context,
    operation: &Operation,
    error: &BoxError,
    ran_ms: u64,
) -> StepFailed {
    let Nature { category, class } = Nature::of(&**error);
    let mut message = chain(error);
    truncate(&mut message, REASON_BYTES_MAX);
    let failure = StepFailure { message, category: category.unwrap_or_else(plain), class };
    let outcome = (StepOutcome::Failed, ran_ms);
    let step = context.or_stop(context.journal().step(operation, outcome, &failure)).await;
    context.journal().keep(step, true);
    StepFailed::new(operation, failure)
}

/// A step that failed, as it is recorded: the same whenever the handler runs.
#[derive(Clone, Debug)]
pub struct StepFailed {
    name: String,
    failure: StepFailure,
    nature: Nature,
}

impl StepFailed {
    fn new(operation: &Operation, failure: StepFailure) -> Self {
        let nature = Nature { category: Some(failure.category.clone()), class: failure.class };
        Self { name: operation.name.to_string(), failure, nature }
    }

    /// The name of the step.
    pub fn step(&self) -> &str {
        &self.name
    }

    /// What was said, with its causes.
    pub fn message(&self) -> &str {
        &self.failure.message
    }

    /// In the vocabulary of the worker; `error` if it did not say.
    pub fn category(&self) -> &str {
        self.failure.category.as_str()
    }

    /// Whether trying again can help.
    pub fn retryable(&self) -> bool {
        self.failure.class.retryable()
    }
}

impl std::fmt::Display for StepFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.failure.message)
    }
}

impl std::error::Error for StepFailed {
    /// What it says of a failure.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.nature)
    }
}

fn read_back<T: DeserializeOwned>(operation: &Operation, step: &Step) -> Result<T, Error> {
    serde_json::from_slice(&step.bytes).map_err(|error| {
        let (at, name) = (operation.at, operation.name.as_str());
        Error::permanent(format!("the result of step {at} {name:?} cannot be read back: {error}"))
    })
}

tokio::task_local! {
    /// The step whose closure is being run.
    static RUNNING: String;
}

/// The name of the step inside of which this is called.
pub fn running() -> Option<String> {
    RUNNING.try_with(Clone::clone).ok()
}

/// The same rules that executions are retried by.
fn retry_after(policy: &Policy, error: &BoxError, retries: u32) -> Option<Duration> {
    let Nature { category, class } = Nature::of(&**error);
    let failure = Failure { reason: String::new(), category: category.unwrap_or_else(plain) };
    policy.retry_after(class, &failure, retries, &mut Chance).map(Duration::from_millis)
}

/// The category of an error that says nothing about itself.
pub fn plain() -> Category {
    Category::new("error").expect("a valid category")
}

/// For jitter.
struct Chance;

impl Entropy for Chance {
    fn next_u64(&mut self) -> u64 {
        rand::random()
    }
}

/// Names an operation of an execution for the world outside: the same in every attempt of a generation.
pub fn token(id: ExecutionId, generation: u32, operation: &str) -> Uuid {
    let text = match generation {
        0 => format!("{id}/{operation}"),
        _ => format!("{id}#{generation}/{operation}"),
    };
    uuid::Builder::from_custom_bytes(digest(&text)).into_uuid()
}

/// Sixteen bytes that only this text has.
pub fn digest(text: &str) -> [u8; 16] {
    let digest = Sha256::digest(text.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes
}
