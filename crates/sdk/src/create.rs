//! A creation that is being put together.

use std::pin::Pin;
use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::decide::create::Create;
use ff_core::text::{IdempotencyKey, Namespace};
use serde::Serialize;
use uuid::Uuid;

use crate::Error;
use crate::client::{Handle, created};
use crate::fabric::Fabric;
use crate::settings::{draft, say, settings};

/// An execution that is about to be created: await it. What is malformed is told then.
#[must_use = "nothing is created until it is awaited"]
pub struct Creation {
    fabric: Arc<dyn Fabric>,
    create: Result<Create, Error>,
}

impl Creation {
    pub(crate) fn new(fabric: Arc<dyn Fabric>, kind: &str, input: &impl Serialize) -> Self {
        Self { fabric, create: draft(ExecutionId::solo(Uuid::now_v7()), kind, input) }
    }

    fn set(mut self, set: impl FnOnce(&mut Create) -> Result<(), Error>) -> Self {
        say(&mut self.create, set);
        self
    }

    /// Under this id, instead of a new one.
    pub fn id(self, id: ExecutionId) -> Self {
        self.set(|create| {
            create.id = id;
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

    /// Created once, however often it is asked for under this key.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.set(|create| {
            create.idempotency_key = Some(IdempotencyKey::new(key.into())?);
            Ok(())
        })
    }

    settings!("`default`");

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
