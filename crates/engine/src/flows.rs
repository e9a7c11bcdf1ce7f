//! Flows: building them, reading them, cancelling them.

mod cancelling;
mod reading;

use ff_core::decide::add_member::{AddMember, Added};
use ff_core::decide::apply_edge::{Applied, ApplyEdge};
use ff_core::decide::create_flow::{CreateFlow, FlowCreated};
use ff_core::decide::extend_flow::{ExtendFlow, Extended};
use ff_core::decide::flow_tags::SetFlowTags;
use ff_core::decide::group_policy::{PolicySet, SetGroupPolicy};
use ff_core::decide::seal_flow::SealFlow;
use ff_core::decide::stage_edge::{StageEdge, Staged};
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::decide::tags::Edit;
use ff_core::decide::wait_children::{WaitChildren, Waiting};
use ff_core::flow::{EdgePolicy, FlowWord};
use ff_core::{EdgeId, ExecutionId, Fence, FlowId};

use crate::{Engine, Error};

pub use cancelling::{FlowCancellation, Wait};
pub use reading::{Eligibility, FlowInput};

impl Engine {
    /// Creates a flow, or finds the one that was created before.
    pub async fn create_flow(&self, create: CreateFlow) -> Result<FlowCreated, Error> {
        self.execute(create).await
    }

    /// Creates a whole graph at once: nothing in it can be claimed before what it waits for.
    pub async fn submit_flow(&self, submit: SubmitFlow) -> Result<FlowCreated, Error> {
        self.execute(submit).await
    }

    /// Adds nodes and edges to a flow.
    pub async fn extend_flow(&self, extend: ExtendFlow) -> Result<Extended, Error> {
        self.execute(extend).await
    }

    /// Adds an execution to a flow.
    pub async fn add_execution_to_flow(
        &self,
        flow: FlowId,
        execution: ExecutionId,
    ) -> Result<Added, Error> {
        self.execute(AddMember { flow, execution }).await
    }

    /// Writes an edge down; it holds nothing back until it is applied.
    pub async fn stage_dependency_edge(&self, edge: StageEdge) -> Result<Staged, Error> {
        self.execute(edge).await
    }

    /// Has a staged edge hold back what waits.
    pub async fn apply_dependency_to_child(
        &self,
        flow: FlowId,
        edge: EdgeId,
    ) -> Result<Applied, Error> {
        self.execute(ApplyEdge { flow, edge, upstream: None, downstream: None }).await
    }

    /// Says what an execution waits for, before its first edge.
    pub async fn set_edge_group_policy(
        &self,
        flow: FlowId,
        downstream: ExecutionId,
        policy: EdgePolicy,
    ) -> Result<PolicySet, Error> {
        self.execute(SetGroupPolicy { flow, downstream, policy, version: None }).await
    }

    /// Says that a flow is complete: it ends when all its members have.
    pub async fn seal_flow(&self, flow: FlowId) -> Result<FlowWord, Error> {
        self.execute(SealFlow { flow }).await
    }

    /// Sets one tag of a flow.
    pub async fn set_flow_tag(
        &self,
        flow: FlowId,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), Error> {
        let set = [(key.into(), value.into())].into();
        self.set_flow_tags(flow, Edit { set, ..Edit::default() }).await.map(drop)
    }

    /// Sets and removes tags of a flow; answers how many there are now.
    pub async fn set_flow_tags(&self, flow: FlowId, edit: Edit) -> Result<usize, Error> {
        self.execute(SetFlowTags { flow, edit }).await
    }

    /// Gives a running member back until what it added to its group has ended.
    pub async fn wait_children(
        &self,
        id: ExecutionId,
        flow: FlowId,
        fence: Fence,
    ) -> Result<Waiting, Error> {
        self.execute(WaitChildren { id, flow, fence }).await
    }
}
