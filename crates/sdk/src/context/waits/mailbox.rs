//! Waitpoints that are made while the handler runs, so that others can be told where to answer.

use std::pin::Pin;
use std::time::Duration;

use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::limits::DURATION_MS_MAX;
use ff_core::step::{Step, StepKind, StepOutcome};
use ff_core::text::{StepName, WaitpointKey};
use ff_core::{Code, Rejection};
use ff_wire::waitpoint::LinkRequest;
use uuid::Uuid;

use super::Context;
use crate::Error;
use crate::journal::{Operation, Recalled};
use crate::pauses::persistently;

/// How long a waitpoint waits to be used, unless said: nothing arrives there after its execution ended.
const EXPIRES_AFTER: Duration = Duration::from_millis(DURATION_MS_MAX);

impl Context {
    /// Makes a waitpoint: hand its token or a link out in a step, then [wait](Context::wait_for) there.
    /// Signals that arrive before that count. It is made once, however often the handler runs.
    pub fn waitpoint(&self, key: impl Into<String>) -> WaitpointCall<'_> {
        let at = self.journal().position();
        WaitpointCall { context: self, at, key: key.into(), expires_after: EXPIRES_AFTER }
    }

    /// The path of a link to one of its waitpoints.
    pub(super) async fn sign(&self, waitpoint: Uuid, link: LinkRequest) -> Result<String, Error> {
        let (id, _) = self.held();
        let fabric = &self.0.fabric;
        let signed = persistently(|| fabric.sign_link(id, waitpoint, link.clone())).await?;
        Ok(signed.path.into_shown())
    }
}

/// A waitpoint to be made; await it.
#[must_use = "it is not made until it is awaited"]
pub struct WaitpointCall<'c> {
    context: &'c Context,
    at: u32,
    key: String,
    expires_after: Duration,
}

impl WaitpointCall<'_> {
    /// Closes it after this (default ten years), unless the execution waits there by then.
    pub fn expires_after(mut self, length: Duration) -> Self {
        self.expires_after = length;
        self
    }

    async fn make(self) -> Result<Waitpoint, Error> {
        let Self { context, at, key, expires_after } = self;
        let name = StepName::new(key.as_str())?;
        let operation = Operation { at, kind: StepKind::Waitpoint, name };
        let key = WaitpointKey::new(key)?;
        let journal = context.journal();
        let expires_in_ms = u64::try_from(expires_after.as_millis()).unwrap_or(u64::MAX);
        if let Some(Recalled::Done(id)) = context.or_stop(journal.recall(&operation)).await {
            return Ok(Waitpoint { context: context.clone(), id, key, expires_in_ms });
        }
        let id = Uuid::now_v7();
        let waitpoint = Waitpoint { context: context.clone(), id, key, expires_in_ms };
        let step = journal.step(&operation, (StepOutcome::Done, 0), &id);
        // In one commit: what was made without a word of it would be made again by whoever runs next,
        // and signals to it would be lost.
        context.few_kept().await;
        let steps = journal.with_all(context.or_stop(step).await);
        // What its author asked for makes no sense: he is to be told, like any caller.
        let his = |error: &Error| error.is(Code::InvalidInput) || error.is(Code::TooManyWaitpoints);
        match waitpoint.ask(steps.clone()).await {
            Err(refused) if his(&refused) => return Err(refused),
            asked => drop(context.or_stop(asked).await),
        }
        journal.recorded(&steps);
        for step in steps {
            journal.learn(step);
        }
        Ok(waitpoint)
    }
}

impl<'c> IntoFuture for WaitpointCall<'c> {
    type Output = Result<Waitpoint, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.make())
    }
}

/// Where signals to this execution arrive.
#[derive(Clone)]
pub struct Waitpoint {
    context: Context,
    id: Uuid,
    key: WaitpointKey,
    expires_in_ms: u64,
}

impl Waitpoint {
    /// Its id.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// What conditions call it.
    pub fn key(&self) -> &WaitpointKey {
        &self.key
    }

    /// What whoever sends a signal here presents. It is a secret: who reads it may answer.
    pub async fn token(&self) -> Result<String, Error> {
        let token = self.ask(Vec::new()).await?;
        token.ok_or_else(|| {
            let said = format!("the key that signed waitpoint {} is gone", self.id);
            Rejection::new(Code::TokenExpired, said).into()
        })
    }

    /// Its token; makes it if it is not there, and records these steps with it.
    async fn ask(&self, steps: Vec<Step>) -> Result<Option<String>, Error> {
        let (id, fence) = self.context.held();
        let create = CreateWaitpoint {
            id,
            fence,
            waitpoint: self.id,
            key: self.key.clone(),
            expires_in_ms: self.expires_in_ms,
            steps,
        };
        let fabric = &self.context.0.fabric;
        let made = persistently(|| fabric.create_waitpoint(create.clone())).await?;
        Ok(made.map(ff_wire::Hidden::into_shown))
    }

    /// A link that sends a signal of this name, once: the path after the address of a server. Whoever
    /// has it needs nothing else.
    pub async fn link(&self, signal: impl Into<String>) -> Result<String, Error> {
        self.link_of(signal.into(), None).await
    }

    /// A link that sends a signal in somebody's name.
    pub async fn link_for(
        &self,
        signal: impl Into<String>,
        who: impl Into<String>,
    ) -> Result<String, Error> {
        self.link_of(signal.into(), Some(who.into())).await
    }

    async fn link_of(&self, signal_name: String, who: Option<String>) -> Result<String, Error> {
        let link = LinkRequest { signal_name, source_identity: who, subject: None };
        self.context.sign(self.id, link).await
    }
}
