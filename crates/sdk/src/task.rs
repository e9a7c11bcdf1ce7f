//! A child that is being put together.

use ff_core::ExecutionId;
use ff_core::decide::create::Create;
use ff_core::text::{LaneId, Namespace};
use serde::Serialize;

use crate::Error;
use crate::settings::{draft, say, settings};

/// Work that a handler hands to others: see [`Context::spawn`](crate::Context::spawn),
/// [`join_all`](crate::Context::join_all), [`settle_all`](crate::Context::settle_all) and
/// [`race`](crate::Context::race).
#[must_use = "nothing runs until it is spawned, joined or raced"]
pub struct Task(Result<Create, Error>);

impl Task {
    pub(crate) fn new(
        kind: &str,
        input: &impl Serialize,
        (lane, namespace): (LaneId, Namespace),
    ) -> Self {
        // Its parent and its place in the journal decide the id, and are not known yet.
        let create = draft(ExecutionId::FIRST, kind, input);
        Self(create.map(|create| Create { lane, namespace, ..create }))
    }

    fn set(mut self, set: impl FnOnce(&mut Create) -> Result<(), Error>) -> Self {
        say(&mut self.0, set);
        self
    }

    settings!("that of its parent");

    /// What is to be created.
    pub(crate) fn into_create(self) -> Result<Create, Error> {
        self.0
    }
}
