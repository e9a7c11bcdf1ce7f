//! Graphs as JSON: named nodes, edges between names, and how each node joins.

use std::collections::BTreeMap;

use ff_core::flow::{
    DependencyKind, EdgePolicy, Graph, Link, Node, NodeRef, OnImpossible, OnSatisfied,
};
use ff_core::text::{Creator, EdgeName, Namespace, NodeName};
use ff_core::{Code, ExecutionId, FlowId, Millis, Rejection};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::create::NewExecution;
use crate::payload::{Json, present};
use crate::{policy, words};

/// How an execution id begins; no node may be called so.
const ID_PREFIX: &str = "{fp:";

/// An execution to create in a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewNode {
    /// What it is called in the flow; decides its id.
    #[schema(min_length = 1, max_length = 256, example = "charge")]
    pub name: String,
    /// What kind of work it is; selects the handler in a worker.
    #[schema(min_length = 1, max_length = 256, example = "charge_card")]
    pub execution_kind: String,
    /// The queue it belongs to.
    #[schema(pattern = "^[ -~]{1,64}$", example = "payments")]
    pub lane_id: String,
    /// What to work on: any JSON value.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json>, nullable = false)]
    pub input: Option<Json>,
    /// What to work on, when it is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(content_encoding = "base64")]
    pub input_base64: Option<String>,
    /// What the bytes of `input_base64` are, for the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// How urgent: 0 (default) to 9000, higher first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 9000)]
    pub priority: Option<i32>,
    /// Who creates it, for the record; the creator of a flow that is submitted with it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator_identity: Option<String>,
    /// Its tags, `owner.name` to text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// How it is to be treated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<policy::Policy>)]
    pub policy: Option<Value>,
    /// Not to be claimed before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub delay_until: Option<Millis>,
    /// Not to be claimed for so long after its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub delay_ms: Option<u64>,
    /// Expires for good at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub deadline_at: Option<Millis>,
    /// How many of the edges into it it waits for; all of them when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
}

/// One execution waits for the end of another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEdge {
    /// What is waited for: the name of a node, or the id of an execution of the flow.
    #[schema(example = "charge")]
    pub from: String,
    /// What waits, likewise.
    #[schema(example = "ship")]
    pub to: String,
    /// Which ends satisfy it (default `success_only`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::DependencyKind>)]
    pub dependency_kind: Option<DependencyKind>,
    /// Under which name `to` reads the result of `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub name: Option<String>,
    /// Any text makes the result of `from` the input of `to`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub data_passing_ref: Option<String>,
}

/// How many of the edges into an execution it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// All of them, the first, or so many.
    pub kind: JoinKind,
    /// `quorum`: how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub k: Option<u32>,
    /// `any_of` and `quorum`: what becomes of those that still run then (default
    /// `cancel_remaining`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::OnSatisfied>)]
    pub on_satisfied: Option<OnSatisfied>,
    /// `any_of` and `quorum`: what becomes of it when so many never can be (default `skip`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::OnImpossible>)]
    pub on_impossible: Option<OnImpossible>,
}

/// What a join waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinKind {
    /// Every edge.
    AllOf,
    /// The first edge.
    AnyOf,
    /// So many edges.
    Quorum,
}

impl JoinKind {
    fn word(self) -> &'static str {
        match self {
            Self::AllOf => "all_of",
            Self::AnyOf => "any_of",
            Self::Quorum => "quorum",
        }
    }
}

impl Join {
    /// The policy. A field that its kind does not take is refused.
    pub fn into_policy(self) -> Result<EdgePolicy, Rejection> {
        let stranger = |field, value: &dyn std::fmt::Display| {
            let why = format!("is no field of kind {}", self.kind.word());
            Err(Rejection::invalid(Code::InvalidInput, field, value, why))
        };
        let on_satisfied = self.on_satisfied.unwrap_or_default();
        let on_impossible = self.on_impossible.unwrap_or_default();
        match (self.kind, self.k) {
            (JoinKind::AllOf | JoinKind::AnyOf, Some(k)) => stranger("k", &k),
            (JoinKind::AllOf, None) => match (self.on_satisfied, self.on_impossible) {
                (Some(word), _) => stranger("on_satisfied", &word),
                (None, Some(word)) => stranger("on_impossible", &word),
                (None, None) => Ok(EdgePolicy::AllOf),
            },
            (JoinKind::AnyOf, None) => Ok(EdgePolicy::AnyOf { on_satisfied, on_impossible }),
            (JoinKind::Quorum, Some(k)) => {
                Ok(EdgePolicy::Quorum { k, on_satisfied, on_impossible })
            }
            (JoinKind::Quorum, None) => {
                let why = "is missing: a quorum waits for so many edges";
                Err(Rejection::invalid(Code::InvalidInput, "k", "", why))
            }
        }
    }
}

impl From<EdgePolicy> for Join {
    fn from(policy: EdgePolicy) -> Self {
        let (kind, k, on_satisfied) = match policy {
            EdgePolicy::AllOf => (JoinKind::AllOf, None, None),
            EdgePolicy::AnyOf { on_satisfied, .. } => (JoinKind::AnyOf, None, Some(on_satisfied)),
            EdgePolicy::Quorum { k, on_satisfied, .. } => {
                (JoinKind::Quorum, Some(k), Some(on_satisfied))
            }
        };
        // Like the engine, which says it only where it is not the rule.
        let on_impossible = Some(policy.on_impossible()).filter(|&word| word != OnImpossible::Skip);
        Self { kind, k, on_satisfied, on_impossible }
    }
}

/// How an execution that is there already joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJoin {
    /// Which: the name of a node, or the id of an execution of the flow.
    pub node: String,
    /// All of them, the first, or so many.
    pub kind: JoinKind,
    /// `quorum`: how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    pub k: Option<u32>,
    /// `any_of` and `quorum`: what becomes of those that still run then (default
    /// `cancel_remaining`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::OnSatisfied>)]
    pub on_satisfied: Option<OnSatisfied>,
    /// `any_of` and `quorum`: what becomes of it when so many never can be (default `skip`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::OnImpossible>)]
    pub on_impossible: Option<OnImpossible>,
}

/// What the nodes of one request have in common.
pub(super) struct Setting<'a> {
    pub flow: FlowId,
    pub namespace: &'a Namespace,
    pub creator: &'a Creator,
}

impl Setting<'_> {
    /// The graph that a request describes.
    pub fn graph(
        &self,
        nodes: Vec<NewNode>,
        edges: Vec<NewEdge>,
        joins: Vec<NewJoin>,
    ) -> Result<Graph, Rejection> {
        let mut graph = Graph::default();
        for node in nodes {
            let (node, join) = self.node(node)?;
            graph.joins.extend(join.map(|join| (NodeRef::Name(node.name.clone()), join)));
            graph.nodes.push(node);
        }
        for edge in edges {
            graph.links.push(edge.into_link()?);
        }
        for NewJoin { node, kind, k, on_satisfied, on_impossible } in joins {
            let policy = Join { kind, k, on_satisfied, on_impossible }.into_policy();
            let policy = policy.map_err(|refused| about(&node, refused))?;
            graph.joins.push((node_ref("node", node)?, policy));
        }
        Ok(graph)
    }

    fn node(&self, new: NewNode) -> Result<(Node, Option<EdgePolicy>), Rejection> {
        let name = NodeName::new(new.name).map_err(|refused| renamed(refused, "name"))?;
        if name.as_str().starts_with(ID_PREFIX) {
            let why = format!("must not begin with {ID_PREFIX}, like the id of an execution");
            return Err(Rejection::invalid(Code::InvalidInput, "name", name, why));
        }
        let told = |refused| about(&name, refused);
        let join = new.join.map(Join::into_policy).transpose().map_err(told)?;
        let execution = NewExecution {
            execution_id: None,
            namespace: None,
            lane_id: new.lane_id,
            execution_kind: new.execution_kind,
            input: new.input,
            input_base64: new.input_base64,
            encoding: new.encoding,
            priority: new.priority,
            creator_identity: new.creator_identity.or_else(|| Some(self.creator.to_string())),
            idempotency_key: None,
            tags: new.tags,
            policy: new.policy,
            delay_until: new.delay_until,
            delay_ms: new.delay_ms,
            deadline_at: new.deadline_at,
        };
        let id = ExecutionId::for_node(self.flow, &name);
        let mut create = execution.into_command(|| id).map_err(told)?;
        create.namespace = self.namespace.clone();
        Ok((Node { name, create }, join))
    }
}

impl NewEdge {
    fn into_link(self) -> Result<Link, Rejection> {
        let mut link = Link::new(node_ref("from", self.from)?, node_ref("to", self.to)?);
        if let Some(kind) = self.dependency_kind {
            link.kind = kind;
        }
        link.name = self.name.map(EdgeName::new).transpose()?;
        link.data_passing_ref = self.data_passing_ref;
        Ok(link)
    }
}

/// A refusal of something about one node.
fn about(node: &dyn std::fmt::Display, refused: Rejection) -> Rejection {
    Rejection { message: format!("node {node}: {}", refused.message), ..refused }
}

/// A refusal under the name that the request has for the field.
pub(crate) fn renamed(refused: Rejection, field: &'static str) -> Rejection {
    let own = refused.field.unwrap_or_default();
    Rejection { message: refused.message.replacen(own, field, 1), field: Some(field), ..refused }
}

/// A node by its name, or an execution by its id.
fn node_ref(field: &'static str, text: String) -> Result<NodeRef, Rejection> {
    let read = if text.starts_with(ID_PREFIX) {
        text.parse().map(NodeRef::Execution)
    } else {
        NodeName::new(text).map(NodeRef::Name)
    };
    read.map_err(|refused| renamed(refused, field))
}
