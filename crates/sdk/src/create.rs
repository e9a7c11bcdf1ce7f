//! A creation that is being put together.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ff_core::decide::create::Create;
use ff_core::policy::{Backoff, Policy, RetryPolicy, TimeoutPolicy};
use ff_core::text::{IdempotencyKey, Kind, LaneId, Namespace};
use ff_core::{Code, ExecutionId, Millis, Rejection};
use ff_wire::payload::json_encoding;
use serde::Serialize;
use uuid::Uuid;

use crate::Error;
use crate::client::{Handle, created};
use crate::fabric::Fabric;

/// An execution that is about to be created: await it. What is malformed is told then.
#[must_use = "nothing is created until it is awaited"]
pub struct Creation {
    fabric: Arc<dyn Fabric>,
    create: Result<Create, Error>,
}

impl Creation {
    pub(crate) fn new(fabric: Arc<dyn Fabric>, kind: &str, input: &impl Serialize) -> Self {
        Self { fabric, create: draft(kind, input) }
    }

    fn set(mut self, set: impl FnOnce(&mut Create) -> Result<(), Error>) -> Self {
        if let Ok(create) = &mut self.create
            && let Err(error) = set(create)
        {
            self.create = Err(error);
        }
        self
    }

    /// Under this id, instead of a new one.
    pub fn id(self, id: ExecutionId) -> Self {
        self.set(|create| {
            create.id = id;
            Ok(())
        })
    }

    /// In this lane, instead of `default`.
    pub fn lane(self, lane: impl Into<String>) -> Self {
        self.set(|create| {
            create.lane = LaneId::new(lane.into())?;
            Ok(())
        })
    }

    /// In this namespace, instead of `default`.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        self.set(|create| {
            create.namespace = Namespace::new(namespace.into())?;
            Ok(())
        })
    }

    /// 0 to 9000, higher first.
    pub fn priority(self, priority: i32) -> Self {
        self.set(|create| {
            create.priority = priority;
            Ok(())
        })
    }

    /// Created once, however often it is asked for under this key.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.set(|create| {
            create.idempotency_key = Some(IdempotencyKey::new(key.into())?);
            Ok(())
        })
    }

    /// Tagged. Keys are of the form `owner.name`.
    pub fn tag(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|create| {
            create.tags.insert(key.into(), value.into());
            Ok(())
        })
    }

    /// Not run before so long has passed.
    pub fn delay(self, delay: Duration) -> Self {
        self.set(|create| {
            create.delay_ms = Some(ms("delay", delay)?);
            Ok(())
        })
    }

    /// Not run before then.
    pub fn delay_until(self, then: SystemTime) -> Self {
        self.set(|create| {
            let since = then.duration_since(UNIX_EPOCH).unwrap_or_default();
            let at = i64::try_from(ms("delay_until", since)?).unwrap_or(i64::MAX);
            create.delay_until = Some(Millis(at));
            Ok(())
        })
    }

    /// Tried again so often when it fails, after a second, two, four and so on up to a minute.
    pub fn retries(self, times: u32) -> Self {
        self.set(|create| {
            let policy = RetryPolicy { max_retries: times, ..RetryPolicy::default() };
            create.policy.retry_policy = Some(policy);
            Ok(())
        })
    }

    /// Tried again so often, after always the same time.
    pub fn retries_every(self, times: u32, delay: Duration) -> Self {
        self.set(|create| {
            let backoff = Backoff::Fixed { delay_ms: ms("delay", delay)?, jitter: false };
            let policy = RetryPolicy { max_retries: times, backoff, ..RetryPolicy::default() };
            create.policy.retry_policy = Some(policy);
            Ok(())
        })
    }

    /// An attempt that takes longer has failed.
    pub fn attempt_timeout(self, timeout: Duration) -> Self {
        self.set(|create| {
            let policy = create.policy.timeout_policy.get_or_insert_with(TimeoutPolicy::default);
            policy.attempt_timeout_ms = Some(ms("attempt_timeout", timeout)?);
            Ok(())
        })
    }

    /// Expires for good when it has not ended within so long.
    pub fn deadline(self, deadline: Duration) -> Self {
        self.set(|create| {
            let policy = create.policy.timeout_policy.get_or_insert_with(TimeoutPolicy::default);
            policy.execution_deadline_ms = Some(ms("deadline", deadline)?);
            Ok(())
        })
    }

    /// Under this policy, in place of everything said before about retries and times.
    pub fn policy(self, policy: Policy) -> Self {
        self.set(|create| {
            create.policy = policy;
            Ok(())
        })
    }

    /// What will be sent.
    pub(crate) fn into_create(self) -> Result<Create, Error> {
        self.create
    }
}

impl IntoFuture for Creation {
    type Output = Result<Handle, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let create = vec![self.create?];
            let mut answers = self.fabric.create(create).await?;
            let answer = answers.pop().expect("an answer for one creation")?;
            Ok(created(&self.fabric, &answer))
        })
    }
}

fn draft(kind: &str, input: &impl Serialize) -> Result<Create, Error> {
    let input = serde_json::to_vec(input)
        .map_err(|error| Rejection::invalid(Code::InvalidInput, "input", "", error))?;
    let id = ExecutionId::solo(Uuid::now_v7());
    let lane = LaneId::new("default").expect("a valid lane");
    Ok(Create {
        input: Bytes::from(input),
        encoding: Some(json_encoding()),
        ..Create::new(id, lane, Kind::new(kind)?)
    })
}

fn ms(field: &'static str, duration: Duration) -> Result<u64, Error> {
    u64::try_from(duration.as_millis()).map_err(|_| {
        let shown = format!("{duration:?}");
        Rejection::invalid(Code::InvalidInput, field, shown, "is longer than anyone waits").into()
    })
}
