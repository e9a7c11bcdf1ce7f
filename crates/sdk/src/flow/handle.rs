//! One flow: what became of it, and what is to become of it.

use std::sync::Arc;
use std::time::Duration;

use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::flow::{CancellationPolicy, FlowWord};
use ff_core::text::NodeName;
use ff_core::{ExecutionId, FlowId};
use ff_wire::flow::{EdgePage, EdgeParams, FlowSnapshot, FlowSummary, MemberPage, MemberParams};
use ff_wire::steer::TagsRequest;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::client::{Handle, ROUND};
use crate::fabric::Fabric;

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

    /// Cancels it with all its members, whatever they are doing.
    pub async fn cancel(&self, reason: impl Into<String>) -> Result<(), Error> {
        self.cancel_with(CancellationPolicy::All, reason.into()).await
    }

    /// Cancels it with those of its members that do not run yet.
    pub async fn cancel_pending(&self, reason: impl Into<String>) -> Result<(), Error> {
        self.cancel_with(CancellationPolicy::Pending, reason.into()).await
    }

    async fn cancel_with(&self, policy: CancellationPolicy, reason: String) -> Result<(), Error> {
        let cancel = CancelFlow { flow: self.id, policy, reason };
        self.fabric.cancel_flow(cancel, Duration::ZERO).await
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
}

impl std::fmt::Debug for FlowHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FlowHandle({})", self.id)
    }
}
