//! Creating executions, and asking what became of them.

mod waits;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use ff_core::decide::cancel::Cancel;
use ff_core::decide::create::Created;
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::replay::{Replay, Replayed};
use ff_core::decide::revoke::Revoke;
use ff_core::decide::unhold::Unhold;
use ff_core::state::PublicState;
use ff_core::{Code, ExecutionId, Fence, FlowId, Rejection};
use ff_wire::flow::{FlowPage, FlowSearchParams};
use ff_wire::lane::{Lane, LaneCount};
use ff_wire::steer::{RevokeAnswer, TagsRequest};
use ff_wire::{ExecutionPage, ExecutionSnapshot, History, Payload, SearchParams};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::create::Creation;
use crate::fabric::Fabric;
use crate::flow::{FlowDraft, FlowHandle};
use crate::worker::Worker;

pub use waits::{DecisionCall, SignalCall};

/// How long one look for an ending waits before the next.
pub(crate) const ROUND: Duration = Duration::from_secs(30);

/// The engine, here or behind a server.
#[derive(Clone)]
pub struct Client {
    fabric: Arc<dyn Fabric>,
}

impl Client {
    /// Speaks to `fabric`.
    pub fn new(fabric: Arc<dyn Fabric>) -> Self {
        Self { fabric }
    }

    /// What it speaks to.
    pub fn fabric(&self) -> &Arc<dyn Fabric> {
        &self.fabric
    }

    /// An execution of some kind with an input, to be created when it is awaited.
    pub fn create(&self, kind: impl AsRef<str>, input: impl Serialize) -> Creation {
        Creation::new(Arc::clone(&self.fabric), kind.as_ref(), &input)
    }

    /// Creates many together; each has its own answer, in order.
    pub async fn create_many(
        &self,
        all: impl IntoIterator<Item = Creation>,
    ) -> Result<Vec<Result<Handle, Error>>, Error> {
        let all: Vec<_> = all.into_iter().map(Creation::into_create).collect();
        let sound = all.iter().filter_map(|one| one.as_ref().ok().cloned()).collect();
        let mut answers = self.fabric.create(sound).await?.into_iter();
        let handle = |one: Result<_, Error>| -> Result<Handle, Error> {
            one?;
            let answer = answers.next().expect("an answer for each creation")?;
            Ok(created(&self.fabric, &answer))
        };
        Ok(all.into_iter().map(handle).collect())
    }

    /// An execution by its id. Whether it exists shows when something is asked of it.
    pub fn execution(&self, id: ExecutionId) -> Handle {
        Handle::new(Arc::clone(&self.fabric), id)
    }

    /// Executions that match, newest first. `next` of a page is `after` of the one that follows.
    pub async fn list(&self, search: SearchParams) -> Result<ExecutionPage, Error> {
        self.fabric.search(search).await
    }

    /// How much is claimable in each lane.
    pub async fn lanes(&self) -> Result<Vec<Lane>, Error> {
        Ok(self.fabric.lanes().await?.lanes)
    }

    /// How many executions are in each lane and state. Looks at every one of them.
    pub async fn counts(&self) -> Result<Vec<LaneCount>, Error> {
        Ok(self.fabric.counts().await?.counts)
    }

    /// A flow of some kind, to be submitted with its nodes when it is awaited.
    pub fn flow(&self, kind: impl AsRef<str>) -> FlowDraft {
        FlowDraft::new(Arc::clone(&self.fabric), kind.as_ref())
    }

    /// A flow by its id. Whether it exists shows when something is asked of it.
    pub fn flow_by_id(&self, id: FlowId) -> FlowHandle {
        FlowHandle::new(Arc::clone(&self.fabric), id, false)
    }

    /// Flows that match, newest first. `next` of a page is `after` of the one that follows.
    pub async fn flows(&self, search: FlowSearchParams) -> Result<FlowPage, Error> {
        self.fabric.search_flows(search).await
    }

    /// A worker on a lane.
    pub fn worker(&self, lane: impl Into<String>) -> Worker {
        Worker::new(Arc::clone(&self.fabric), lane.into())
    }
}

/// One execution.
#[derive(Clone)]
pub struct Handle {
    fabric: Arc<dyn Fabric>,
    id: ExecutionId,
    duplicate: bool,
    seen: Option<Seen>,
}

/// What an operator saw of an execution, which its commands mean.
#[derive(Clone, Copy)]
struct Seen {
    version: u64,
    replays: u32,
    lease: Fence,
}

impl From<&ExecutionSnapshot> for Seen {
    fn from(x: &ExecutionSnapshot) -> Self {
        // Where no worker holds it, a lease that begins meanwhile is not meant either.
        let none = Fence { attempt_index: 0, lease_epoch: 0 };
        let lease = x.current_lease.as_ref().map_or(none, |lease| lease.fence.into());
        Self { version: x.version, replays: x.counts.replays, lease }
    }
}

pub(crate) fn created(fabric: &Arc<dyn Fabric>, answer: &Created) -> Handle {
    let duplicate = matches!(answer, Created::Duplicate { .. });
    Handle { duplicate, ..Handle::new(Arc::clone(fabric), answer.execution_id()) }
}

impl Handle {
    pub(crate) fn new(fabric: Arc<dyn Fabric>, id: ExecutionId) -> Self {
        Self { fabric, id, duplicate: false, seen: None }
    }

    /// Its id.
    pub fn id(&self) -> ExecutionId {
        self.id
    }

    /// Whether it existed already when it was to be created.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }

    /// Waits until it has ended, however long that takes.
    pub async fn ended(&self) -> Result<PublicState, Error> {
        loop {
            let state = self.fabric.wait(self.id, ROUND).await?;
            if state.is_terminal() {
                return Ok(state);
            }
        }
    }

    /// Waits until it has ended, up to `wait`, however long that is; the state it is in then.
    pub async fn wait(&self, wait: Duration) -> Result<PublicState, Error> {
        let begun = Instant::now();
        loop {
            let left = wait.saturating_sub(begun.elapsed());
            let state = self.fabric.wait(self.id, left.min(ROUND)).await?;
            if state.is_terminal() || begun.elapsed() >= wait {
                return Ok(state);
            }
        }
    }

    /// Waits until it has ended, and reads its result. If it did not succeed, that is the error.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        match self.outcome().await? {
            Ok(result) => read_result(self.id, result.as_ref()),
            Err(why) => Err(not_successful(why)),
        }
    }

    /// Waits until it has ended; its result, or in words how else it ended.
    pub(crate) async fn outcome(&self) -> Result<Result<Option<Payload>, String>, Error> {
        loop {
            let (state, result) = self.fabric.wait_result(self.id, ROUND).await?;
            if state == PublicState::Completed {
                return Ok(Ok(result));
            }
            if state.is_terminal() {
                return Ok(Err(in_words(&self.describe().await?)));
            }
        }
    }

    /// The same, for commands that mean it as `x` shows it: if one of them is repeated because its answer
    /// was lost, and something else happened in between, it is refused with `version_conflict`, or finds that
    /// it was carried out. Without this, each command means it as it is when the command is given.
    #[must_use]
    pub fn as_seen(&self, x: &ExecutionSnapshot) -> Self {
        Self { seen: Some(x.into()), ..self.clone() }
    }

    /// What the next command means.
    async fn seen(&self) -> Result<Seen, Error> {
        match self.seen {
            Some(seen) => Ok(seen),
            None => Ok(Seen::from(&self.describe().await?)),
        }
    }

    /// Cancels it, whatever it is doing.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<(), Error> {
        let (id, replays) = (self.id, Some(self.seen().await?.replays));
        let cancel = Cancel { id, reason: reason.into(), fence: None, replays };
        self.fabric.cancel(cancel).await
    }

    /// Where it stands.
    pub async fn describe(&self) -> Result<ExecutionSnapshot, Error> {
        self.fabric.describe(self.id).await
    }

    /// Everything that happened to it: attempts, steps and events.
    pub async fn history(&self) -> Result<History, Error> {
        self.fabric.history(self.id).await
    }

    /// Keeps it from being claimed while it waits.
    pub async fn hold(&self, reason: impl Into<String>) -> Result<(), Error> {
        let (id, version) = (self.id, Some(self.seen().await?.version));
        self.fabric.hold(Hold { id, reason: reason.into(), version }).await
    }

    /// Lets it be claimed again after a hold.
    pub async fn unhold(&self) -> Result<(), Error> {
        let (id, version) = (self.id, Some(self.seen().await?.version));
        self.fabric.unhold(Unhold { id, version }).await
    }

    /// Takes it away from the worker that runs it, for another to go on with.
    pub async fn revoke(&self, reason: impl Into<String>) -> Result<RevokeAnswer, Error> {
        let (id, expected) = (self.id, Some(self.seen().await?.lease));
        let revoke = Revoke { id, expected, worker_instance: None, reason: reason.into() };
        self.fabric.revoke(revoke).await
    }

    /// Changes how urgent it is while it waits.
    pub async fn set_priority(&self, priority: i32) -> Result<(), Error> {
        let (id, version) = (self.id, Some(self.seen().await?.version));
        self.fabric.set_priority(ChangePriority { id, priority, version }).await
    }

    /// Sets a tag.
    pub async fn set_tag(
        &self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), Error> {
        let set = [(key.into(), value.into())].into();
        self.set_tags(TagsRequest { set, ..TagsRequest::default() }).await
    }

    /// Removes a tag.
    pub async fn remove_tag(&self, key: impl Into<String>) -> Result<(), Error> {
        let remove = [key.into()].into();
        self.set_tags(TagsRequest { remove, ..TagsRequest::default() }).await
    }

    /// Sets and removes tags in one change: of the version that `edit` names, or that was
    /// [seen](Self::as_seen); of any when neither says.
    /// A worker that reports progress makes new versions all the time.
    pub async fn set_tags(&self, edit: TagsRequest) -> Result<(), Error> {
        let version = edit.version.or(self.seen.map(|seen| seen.version));
        let edit = TagsRequest { version, ..edit };
        self.fabric.set_tags(self.id, edit).await
    }

    /// Has it run again after it has ended, and what was skipped because of it wait for it again.
    pub async fn replay(&self, reason: impl Into<String>) -> Result<Replayed, Error> {
        self.replay_with(reason.into(), true).await
    }

    /// Has it run again after it has ended; what was skipped because of it stays skipped.
    pub async fn replay_alone(&self, reason: impl Into<String>) -> Result<Replayed, Error> {
        self.replay_with(reason.into(), false).await
    }

    async fn replay_with(&self, reason: String, downstream: bool) -> Result<Replayed, Error> {
        let (id, replays) = (self.id, Some(self.seen().await?.replays));
        self.fabric.replay(Replay { id, reason, replays, downstream }).await
    }
}

/// The result of an execution as a value.
pub(crate) fn read_result<T: DeserializeOwned>(
    id: ExecutionId,
    result: Option<&Payload>,
) -> Result<T, Error> {
    let bytes = result.map_or(&b"null"[..], |result| &result.bytes);
    serde_json::from_slice(bytes).map_err(|error| {
        let why = format!("of {id} does not fit: {error}");
        Rejection::invalid(Code::InvalidInput, "result", "", why).into()
    })
}

/// How an execution ended. Its id is named once: the reason may name it already.
pub(crate) fn in_words(x: &ExecutionSnapshot) -> String {
    let (id, state) = (x.execution_id.to_string(), x.public_state);
    match &x.ended_because {
        None => format!("{id} is {state}"),
        Some(why) if why.contains(&id) => format!("{state}: {why}"),
        Some(why) => format!("{id} is {state}: {why}"),
    }
}

/// An execution ended in another way than with success.
pub(crate) fn not_successful(why: String) -> Error {
    Error::coded("execution_not_successful", why, "Look at its history.", false)
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({})", self.id)
    }
}
