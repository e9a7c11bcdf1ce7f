//! One flow: what became of it, and what is to become of it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::flow::{CancellationPolicy, FlowWord};
use ff_core::text::NodeName;
use ff_core::{ExecutionId, FlowId};
use ff_wire::flow::{
    CancelFlowAnswer, EdgePage, EdgeParams, FlowSnapshot, FlowSummary, MemberPage, MemberParams,
};
use ff_wire::steer::TagsRequest;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::client::{Handle, ROUND};
use crate::fabric::Fabric;
use crate::flow::FlowExtension;

/// One flow.
#[derive(Clone)]
pub struct FlowHandle {
    fabric: Arc<dyn Fabric>,
    id: FlowId,
    duplicate: bool,
}

impl FlowHandle {
    pub(crate) fn new(fabric: Arc<dyn Fabric>, id: FlowId, duplicate: bool) -> Self {
        Self { fabric, id, duplicate }
    }

    /// Its id.
    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Whether it existed already when it was to be submitted.
    pub fn is_duplicate(&self) -> bool {
        self.duplicate
    }

    /// The execution that a node is. Whether there is such a node shows when something is asked of
    /// it; a name that no node can have is refused.
    pub fn node(&self, name: impl AsRef<str>) -> Result<Handle, Error> {
        let id = ExecutionId::for_node(self.id, &NodeName::new(name.as_ref())?);
        Ok(Handle::new(Arc::clone(&self.fabric), id))
    }

    /// Waits until a node has ended, and reads its result. If it did not succeed, that is the
    /// error.
    pub async fn result<T: DeserializeOwned>(&self, node: impl AsRef<str>) -> Result<T, Error> {
        self.node(node)?.result().await
    }

    /// Waits until the flow has ended, however long that takes: sealed, with all its members ended,
    /// or cancelled.
    pub async fn ended(&self) -> Result<FlowWord, Error> {
        loop {
            let state = self.wait(ROUND).await?;
            if state != FlowWord::Open {
                return Ok(state);
            }
        }
    }

    /// Waits until the flow has ended, up to `wait`; the state it is in then.
    pub async fn wait(&self, wait: Duration) -> Result<FlowWord, Error> {
        Ok(self.fabric.wait_flow(self.id, wait).await?.flow.state)
    }

    /// Cancels it with all its members, whatever they are doing, unless something else is said
    /// before it is awaited. The answer tells what was done.
    pub fn cancel(&self, reason: impl Into<String>) -> FlowCancel {
        let (policy, reason) = (CancellationPolicy::All, reason.into());
        let cancel = CancelFlow { flow: self.id, policy, reason };
        FlowCancel { fabric: Arc::clone(&self.fabric), cancel, wait: Duration::ZERO }
    }

    /// Adds nodes to a flow that is open. They may wait for those that are there, by their names.
    pub fn extend(&self) -> FlowExtension {
        FlowExtension::new(self.clone())
    }

    /// Where it stands, and what its members wait for.
    pub async fn describe(&self) -> Result<FlowSnapshot, Error> {
        self.fabric.wait_flow(self.id, Duration::ZERO).await
    }

    /// What its members are doing, counted now.
    pub async fn summary(&self) -> Result<FlowSummary, Error> {
        self.fabric.flow_summary(self.id).await
    }

    /// A page of its members. `next` of a page is `after` of the one that follows.
    pub async fn members(&self, page: MemberParams) -> Result<MemberPage, Error> {
        self.fabric.flow_members(self.id, page).await
    }

    /// A page of its edges. `next` of a page is `after` of the one that follows.
    pub async fn edges(&self, page: EdgeParams) -> Result<EdgePage, Error> {
        self.fabric.flow_edges(self.id, page).await
    }

    /// Says that it is complete: it ends when all its members have, and only running ones may add
    /// to it.
    pub async fn seal(&self) -> Result<FlowWord, Error> {
        self.fabric.seal_flow(self.id).await
    }

    /// Sets a tag.
    pub async fn set_tag(
        &self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), Error> {
        let set = [(key.into(), value.into())].into();
        let edit = TagsRequest { set, ..TagsRequest::default() };
        self.fabric.set_flow_tags(self.id, edit).await
    }

    /// Removes a tag.
    pub async fn remove_tag(&self, key: impl Into<String>) -> Result<(), Error> {
        let remove = [key.into()].into();
        let edit = TagsRequest { remove, ..TagsRequest::default() };
        self.fabric.set_flow_tags(self.id, edit).await
    }

    /// Sets and removes tags in one change.
    pub async fn set_tags(&self, edit: TagsRequest) -> Result<(), Error> {
        self.fabric.set_flow_tags(self.id, edit).await
    }

    pub(super) fn fabric(&self) -> &dyn Fabric {
        &*self.fabric
    }
}

/// A flow that is about to be cancelled: await it.
#[must_use = "nothing is cancelled until it is awaited"]
pub struct FlowCancel {
    fabric: Arc<dyn Fabric>,
    cancel: CancelFlow,
    wait: Duration,
}

impl FlowCancel {
    /// With those of its members without an attempt under way; the others go on.
    pub fn pending(self) -> Self {
        self.policy(CancellationPolicy::Pending)
    }

    /// Without its members: they go on.
    pub fn flow_only(self) -> Self {
        self.policy(CancellationPolicy::FlowOnly)
    }

    fn policy(mut self, policy: CancellationPolicy) -> Self {
        self.cancel.policy = policy;
        self
    }

    /// Waits until its members are cancelled, up to so long; a server waits a minute at most. If
    /// they are too many for that, the error is `timeout`, and the rest is cancelled all the same.
    /// When nobody waits, the answer says whether it is still going on.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

impl IntoFuture for FlowCancel {
    type Output = Result<CancelFlowAnswer, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.fabric.cancel_flow(self.cancel, self.wait).await })
    }
}

impl std::fmt::Debug for FlowHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FlowHandle({})", self.id)
    }
}
