//! One step of a handler: run once, retried as told, remembered.

use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use ff_core::ExecutionId;
use ff_core::execution::Failure;
use ff_core::policy::{Backoff, Policy, RetryPolicy};
use ff_core::step::{Step, StepKind};
use ff_core::text::{Category, StepName};
use ff_core::time::Entropy;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use crate::error::Nature;
use crate::{BoxError, Context, Error};

/// What a step may know about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepInfo {
    /// The same for every try of this step, in this attempt and every other: what an idempotent
    /// receiver recognises it by.
    pub token: Uuid,
    /// Its place in the journal.
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
    number: u32,
    name: String,
    run: F,
    retry: Option<RetryPolicy>,
    of: PhantomData<fn() -> (T, M)>,
}

impl<'c, T, M, F: StepFn<T, M>> StepCall<'c, T, M, F> {
    pub(crate) fn new(context: &'c Context, number: u32, name: String, run: F) -> Self {
        Self { context, number, name, run, retry: None, of: PhantomData }
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
        let Self { context, number, name, run, retry, of: _ } = self;
        Box::pin(take(context, (number, name), run, retry))
    }
}

async fn take<T, M, F>(
    context: &Context,
    (number, name): (u32, String),
    mut run: F,
    retry: Option<RetryPolicy>,
) -> Result<T, BoxError>
where
    T: Serialize + DeserializeOwned + Send + Sync,
    F: StepFn<T, M>,
{
    let name = context.or_stop(StepName::new(name).map_err(Error::from)).await;
    let journal = context.journal();
    if let Some(result) = context.or_stop(journal.recall(number, StepKind::Run, &name)).await {
        return Ok(result);
    }
    if journal.keeps_a_wait() {
        // If the step fails, nobody is asked again: it may have done something all the same.
        context.record_what_was_found().await;
    }
    let policy = Policy { retry_policy: retry, ..Policy::default() };
    let token = context.token(number);
    let mut retries = 0;
    let begun = Instant::now();
    let result = loop {
        context.unless_lost().await;
        let tried = run.run(StepInfo { token, number, retries });
        let error = match RUNNING.scope(name.as_str().to_owned(), tried).await {
            Ok(result) => break result,
            Err(error) => error,
        };
        let Some(pause) = retry_after(&policy, &error, retries) else { return Err(error) };
        tracing::info!(step = %name.as_str(), %error, retries, "a step is tried again");
        tokio::time::sleep(pause).await;
        retries += 1;
    };
    let ran_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let step = context.or_stop(journal.step((number, StepKind::Run, name), ran_ms, &result)).await;
    // What a later run reads, so that both go on from the same value. One that cannot be read back fails
    // the execution for good: its effect took place.
    let result = context.or_stop(read_back(&step)).await;
    context.record(step).await;
    Ok(result)
}

fn read_back<T: DeserializeOwned>(step: &Step) -> Result<T, Error> {
    serde_json::from_slice(&step.bytes).map_err(|error| {
        let (number, name) = (step.number, step.name.as_str());
        Error::permanent(format!(
            "the result of step {number} {name:?} cannot be read back: {error}"
        ))
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

/// Names a step of an execution for the world outside.
pub fn token(id: ExecutionId, number: u32) -> Uuid {
    let digest = Sha256::digest(format!("{id}/{number}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}
