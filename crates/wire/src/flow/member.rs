//! Members of flows: adding them, listing them, what they wait for and what they are given.

use std::collections::BTreeMap;

use ff_core::decide::add_member::{AddMember, Added};
use ff_core::decide::group_policy::PolicySet;
use ff_core::decide::wait_children::{WaitChildren, Waiting};
use ff_core::flow::EdgeWord;
use ff_core::fold::Blob;
use ff_core::{ExecutionId, FlowId, Rejection, view};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::graph::renamed;
use crate::bounds::check_limit;
use crate::lease::Fence;
use crate::payload::{Json, fields_of, present};
use crate::snapshot::ExecutionSnapshot;
use crate::words;

/// Members in a page when nobody says.
pub const LIMIT_DEFAULT: u32 = 100;

/// Add an execution to a flow, for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberRequest {
    /// Which; it must lie in the partition of the flow.
    pub execution_id: String,
}

impl MemberRequest {
    /// The command.
    pub fn into_command(self, flow: FlowId) -> Result<AddMember, Rejection> {
        Ok(AddMember { flow, execution: self.execution_id.parse()? })
    }
}

/// It is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum MemberAnswer {
    /// Now.
    Added {
        /// How many members there are.
        node_count: u32,
    },
    /// It was one already.
    AlreadyMember {
        /// How many members there are.
        node_count: u32,
    },
}

impl From<Added> for MemberAnswer {
    fn from(added: Added) -> Self {
        match added {
            Added::Added { node_count } => Self::Added { node_count },
            Added::AlreadyMember { node_count } => Self::AlreadyMember { node_count },
        }
    }
}

/// Which page of the members of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MemberParams {
    /// From where on: `next` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Members in the page (default 100).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
}

impl MemberParams {
    /// The place and the limit that apply.
    pub fn into_page(self) -> Result<(Option<ExecutionId>, u32), Rejection> {
        let after = self.after.as_deref().map(str::parse).transpose();
        let after = after.map_err(|refused| renamed(refused, "after"))?;
        Ok((after, check_limit(self.limit.unwrap_or(LIMIT_DEFAULT))?))
    }
}

/// A page of the members of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberPage {
    /// The members, by id.
    pub members: Vec<ExecutionSnapshot>,
    /// Where the next page begins, to be sent as `after`; nothing when this was the last.
    #[schema(value_type = Option<String>)]
    pub next: Option<ExecutionId>,
}

impl MemberPage {
    /// What was found, and where it goes on.
    pub fn new(found: Vec<view::ExecutionSnapshot>, next: Option<ExecutionId>) -> Self {
        Self { members: found.into_iter().map(ExecutionSnapshot::from).collect(), next }
    }
}

/// The policy of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum PolicyAnswer {
    /// It holds now.
    Set,
    /// It held already.
    AlreadySet,
}

impl From<PolicySet> for PolicyAnswer {
    fn from(set: PolicySet) -> Self {
        match set {
            PolicySet::Set => Self::Set,
            PolicySet::AlreadySet => Self::AlreadySet,
        }
    }
}

/// Give a running execution back until what it added to its own edges has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitChildrenRequest {
    /// Proof of holding it.
    pub fence: Fence,
    /// Its flow; the server looks it up when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub flow_id: Option<String>,
}

impl WaitChildrenRequest {
    /// The flow, if it was given.
    pub fn flow(&self) -> Result<Option<FlowId>, Rejection> {
        self.flow_id.as_deref().map(str::parse).transpose()
    }

    /// The command, for an execution of this flow.
    pub fn into_command(self, id: ExecutionId, flow: FlowId) -> WaitChildren {
        WaitChildren { id, flow, fence: self.fence.into() }
    }
}

/// Whether it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum WaitChildrenAnswer {
    /// The lease is given back.
    Waiting,
    /// There is nothing to wait for: the lease still holds.
    Ready,
}

impl From<Waiting> for WaitChildrenAnswer {
    fn from(waiting: Waiting) -> Self {
        match waiting {
            Waiting::Waiting => Self::Waiting,
            Waiting::Ready => Self::Ready,
        }
    }
}

/// What those that an execution waits for give it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InputsAnswer {
    /// By the name of the edge; edges without a name give nothing.
    pub inputs: BTreeMap<String, NamedInput>,
}

/// What one of them gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NamedInput {
    /// Which.
    #[schema(value_type = String)]
    pub execution_id: ExecutionId,
    /// Whether the edge is satisfied: only then is there a result.
    #[schema(value_type = words::EdgeWord)]
    pub edge_state: EdgeWord,
    /// Its result, when it is JSON; absent when it ended without one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub result: Option<Json>,
    /// Its result, when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64", nullable = false)]
    pub result_base64: Option<String>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub encoding: Option<String>,
}

impl NamedInput {
    /// What this execution left.
    pub fn new(execution_id: ExecutionId, edge_state: EdgeWord, result: Option<Blob>) -> Self {
        let (result, result_base64, encoding) = fields_of(result);
        Self { execution_id, edge_state, result, result_base64, encoding }
    }
}

/// Whether an execution may be claimed, as far as its flow is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum EligibilityAnswer {
    /// It waits for nothing in its flow.
    Eligible,
    /// It waits for others.
    BlockedByDependencies,
    /// What it waits for can never be.
    Impossible,
    /// A worker holds it.
    Owned,
    /// It is suspended: it waits for a signal, an operator or a time.
    NotRunnable,
    /// It has ended.
    Terminal,
}
