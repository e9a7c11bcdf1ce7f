//! Flows: creating them, alone or with a whole graph, and adding to them.
//!
//! The name of a node decides the id of its execution, so every answer that names nodes says
//! which ids they have, also when the call was sent before.

pub mod cancel;
pub mod edge;
pub mod graph;
pub mod member;
pub mod search;
pub mod snapshot;

use std::collections::BTreeMap;

use ff_core::decide::create_flow::{CreateFlow, FlowCreated};
use ff_core::decide::extend_flow::{ExtendFlow, Extended};
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::flow::{FlowWord, Graph};
use ff_core::text::{Creator, FlowKind, IdempotencyKey, Namespace, NodeName};
use ff_core::{Code, ExecutionId, FlowId, Rejection};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::lease::HeldLease;
use crate::words;
use graph::{NewEdge, NewJoin, NewNode, Setting};

pub use cancel::{CancelFlowAnswer, CancelFlowParams, CancelFlowRequest};
pub use edge::{EdgePage, EdgeParams, EdgeSnapshot};
pub use graph::Join;
pub use member::{MemberPage, MemberParams};
pub use search::{FlowPage, FlowSearchParams};
pub use snapshot::{FlowLine, FlowSnapshot, FlowSummary};

/// A new flow. With `nodes`, its whole graph is created at once: nothing in it can be claimed
/// before what it waits for has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewFlow {
    /// Its id; the server mints one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    pub flow_id: Option<String>,
    /// What sort of flow it is, in your own words.
    #[schema(min_length = 1, max_length = 256, example = "order")]
    pub flow_kind: String,
    /// Tenancy scope, also of its members; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub namespace: Option<String>,
    /// Who creates it and its nodes, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator_identity: Option<String>,
    /// Its tags, `owner.name` to text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// Its executions, by name: at least one. Without, the flow begins empty, and what follows has
    /// no meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 10000)]
    pub nodes: Option<Vec<NewNode>>,
    /// What waits for what; both ends must be among `nodes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50000)]
    pub edges: Vec<NewEdge>,
    /// Whether the graph is complete (default true): then only its running executions may add to
    /// it, and the flow ends when all of them have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal: Option<bool>,
    /// Makes the submission repeatable: twice is once. The header `Idempotency-Key` says the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub idempotency_key: Option<String>,
    /// How long the key is remembered (default 24 hours, or what the deployment says).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 315_360_000_000_i64)]
    pub dedup_window_ms: Option<u64>,
}

/// The command that a new flow asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowOrder {
    /// Without nodes.
    Create(CreateFlow),
    /// With nodes.
    Submit(Box<SubmitFlow>),
}

impl FlowOrder {
    /// The names of its nodes.
    pub fn names(&self) -> Vec<NodeName> {
        match self {
            Self::Create(_) => Vec::new(),
            Self::Submit(submit) => names(&submit.graph),
        }
    }
}

fn names(graph: &Graph) -> Vec<NodeName> {
    graph.nodes.iter().map(|node| node.name.clone()).collect()
}

impl NewFlow {
    /// The command; `mint` makes an id where none was given.
    pub fn into_order(self, mint: impl FnOnce() -> FlowId) -> Result<FlowOrder, Rejection> {
        self.check_fields()?;
        let id = self.flow_id.as_deref().map_or_else(|| Ok(mint()), str::parse)?;
        let mut create = CreateFlow::new(id, FlowKind::new(self.flow_kind)?);
        if let Some(namespace) = self.namespace {
            create.namespace = Namespace::new(namespace)?;
        }
        if let Some(creator) = self.creator_identity {
            create.creator = Creator::new(creator)?;
        }
        create.tags = self.tags;
        let Some(nodes) = self.nodes else { return Ok(FlowOrder::Create(create)) };
        let (namespace, creator) = (&create.namespace, &create.creator);
        let graph =
            Setting { flow: id, namespace, creator }.graph(nodes, self.edges, Vec::new())?;
        Ok(FlowOrder::Submit(Box::new(SubmitFlow {
            graph,
            seal: self.seal.unwrap_or(true),
            idempotency_key: self.idempotency_key.map(IdempotencyKey::new).transpose()?,
            dedup_window_ms: self.dedup_window_ms,
            flow: create,
        })))
    }

    /// Refuses what has no meaning without nodes.
    fn check_fields(&self) -> Result<(), Rejection> {
        let given = [
            ("edges", !self.edges.is_empty()),
            ("seal", self.seal.is_some()),
            ("idempotency_key", self.idempotency_key.is_some()),
            ("dedup_window_ms", self.dedup_window_ms.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given && self.nodes.is_none()) {
            None => Ok(()),
            Some((field, _)) => {
                let why = "needs nodes; a flow without them is created once by its flow_id";
                Err(Rejection::invalid(Code::InvalidInput, field, "", why))
            }
        }
    }
}

/// The answer to a creation or submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CreateFlowAnswer {
    /// It exists now.
    Created {
        /// Its id.
        #[schema(value_type = String, format = "uuid")]
        flow_id: FlowId,
        /// Its executions, by name.
        #[schema(value_type = BTreeMap<String, String>)]
        nodes: BTreeMap<String, ExecutionId>,
    },
    /// It existed already.
    Duplicate {
        /// The id of the original.
        #[schema(value_type = String, format = "uuid")]
        flow_id: FlowId,
        /// The executions of the original, by name.
        #[schema(value_type = BTreeMap<String, String>)]
        nodes: BTreeMap<String, ExecutionId>,
    },
}

impl CreateFlowAnswer {
    /// What became of a flow whose nodes have these names.
    pub fn new(created: FlowCreated, names: &[NodeName]) -> Self {
        let nodes = ids(created.flow_id(), names);
        match created {
            FlowCreated::Created { flow_id } => Self::Created { flow_id, nodes },
            FlowCreated::Duplicate { flow_id } => Self::Duplicate { flow_id, nodes },
        }
    }
}

fn ids(flow: FlowId, names: &[NodeName]) -> BTreeMap<String, ExecutionId> {
    let id = |name: &NodeName| (name.to_string(), ExecutionId::for_node(flow, name));
    names.iter().map(id).collect()
}

/// Add to a flow. What is there already, and the same, is left as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExtendRequest {
    /// The namespace of the flow, to be sure; the server looks it up when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub namespace: Option<String>,
    /// Executions to create, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 10000)]
    pub nodes: Vec<NewNode>,
    /// What waits for what, new or there already.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 50000)]
    pub edges: Vec<NewEdge>,
    /// How those join that are there already, before their first edge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 10000)]
    pub joins: Vec<NewJoin>,
    /// Whether the graph is complete then (default false).
    pub seal: bool,
    /// The running execution that adds this. It may add to its own flow also when that is sealed;
    /// one outside any flow becomes the root of a new one, whose id is its own UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<HeldLease>,
}

impl ExtendRequest {
    /// The command, for a flow in this namespace.
    pub fn into_command(
        self,
        flow: FlowId,
        namespace: &Namespace,
    ) -> Result<ExtendFlow, Rejection> {
        let creator = Creator::new("")?;
        let setting = Setting { flow, namespace, creator: &creator };
        let graph = setting.graph(self.nodes, self.edges, self.joins)?;
        let by = |by: HeldLease| Ok::<_, Rejection>((by.execution_id.parse()?, by.fence.into()));
        Ok(ExtendFlow { flow, graph, seal: self.seal, by: self.by.map(by).transpose()? })
    }
}

/// The flow as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExtendAnswer {
    /// The flow.
    #[schema(value_type = String, format = "uuid")]
    pub flow_id: FlowId,
    /// Counts members and edges added.
    pub graph_revision: u64,
    /// How many members there are.
    pub node_count: u32,
    /// The executions that the request names, by name.
    #[schema(value_type = BTreeMap<String, String>)]
    pub nodes: BTreeMap<String, ExecutionId>,
}

impl ExtendAnswer {
    /// What became of a flow that was extended by nodes with these names.
    pub fn new(extended: &Extended, names: &[NodeName]) -> Self {
        let Extended { flow_id, graph_revision, node_count } = *extended;
        Self { flow_id, graph_revision, node_count, nodes: ids(flow_id, names) }
    }
}

/// Say that a flow is complete. It takes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SealRequest {}

/// The flow is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealAnswer {
    /// Where it stands; it has ended when all its members have.
    #[schema(value_type = words::FlowWord)]
    pub state: FlowWord,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ff_core::flow::{DependencyKind, EdgePolicy, NodeRef, OnSatisfied};
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    const FLOW: FlowId = FlowId(Uuid::from_u128(7));

    fn order(body: &Value) -> Result<FlowOrder, Rejection> {
        let new: NewFlow = serde_json::from_str(&body.to_string()).unwrap();
        new.into_order(|| FLOW)
    }

    fn submitted(body: &Value) -> SubmitFlow {
        match order(body).unwrap() {
            FlowOrder::Submit(submit) => *submit,
            FlowOrder::Create(create) => panic!("{create:?} has no nodes"),
        }
    }

    #[test]
    fn without_nodes_a_flow_begins_empty() {
        let least = CreateFlow::new(FLOW, FlowKind::new("order").unwrap());
        assert_eq!(order(&json!({"flow_kind": "order"})).unwrap(), FlowOrder::Create(least));
    }

    #[test]
    fn everything_that_is_said_of_a_graph_reaches_the_command() {
        let submit = submitted(&json!({
            "flow_kind": "order", "namespace": "shop", "creator_identity": "ada",
            "tags": {"shop.order": "7"}, "idempotency_key": "k", "dedup_window_ms": 5,
            "nodes": [
                {"name": "a", "execution_kind": "work", "lane_id": "lane", "input": null,
                 "priority": 3, "tags": {"shop.part": "a"}, "delay_ms": 9, "deadline_at": 12,
                 "policy": {"max_replay_count": 1}, "creator_identity": "bob"},
                {"name": "b", "execution_kind": "work", "lane_id": "lane"},
                {"name": "end", "execution_kind": "work", "lane_id": "lane",
                 "join": {"kind": "quorum", "k": 1, "on_satisfied": "let_run"}},
            ],
            "edges": [
                {"from": "a", "to": "end", "dependency_kind": "any_terminal", "name": "first",
                 "data_passing_ref": "result"},
                {"from": "b", "to": "end"},
            ],
        }));
        assert_eq!((submit.flow.id, submit.flow.namespace.as_str()), (FLOW, "shop"));
        assert_eq!((submit.seal, submit.dedup_window_ms), (true, Some(5)));
        assert_eq!(submit.idempotency_key.as_ref().unwrap().as_str(), "k");
        let [a, b, end] = &submit.graph.nodes[..] else { panic!("three nodes were sent") };
        assert_eq!(a.create.id, ExecutionId::for_node(FLOW, &a.name));
        assert_eq!((&a.create.input[..], a.create.priority), (&b"null"[..], 3));
        assert_eq!((a.create.creator.as_str(), b.create.creator.as_str()), ("bob", "ada"));
        assert_eq!((end.name.as_str(), end.create.namespace.as_str()), ("end", "shop"));
        let [first, second] = &submit.graph.links[..] else { panic!("two edges were sent") };
        assert_eq!(
            (first.kind, second.kind),
            (DependencyKind::AnyTerminal, DependencyKind::SuccessOnly,)
        );
        assert_eq!(first.name.as_ref().unwrap().as_str(), "first");
        assert_eq!(first.data_passing_ref.as_deref(), Some("result"));
        let policy = EdgePolicy::quorum(1, OnSatisfied::LetRun);
        assert_eq!(submit.graph.joins, [(NodeRef::Name(end.name.clone()), policy)]);
    }

    #[test]
    fn what_has_no_meaning_without_nodes_is_refused() {
        for (field, value) in [
            ("edges", json!([{"from": "a", "to": "b"}])),
            ("seal", json!(false)),
            ("idempotency_key", json!("k")),
            ("dedup_window_ms", json!(1)),
        ] {
            let mut body = json!({"flow_kind": "order"});
            body[field] = value;
            assert_eq!(order(&body).unwrap_err().field, Some(field));
        }
    }

    #[test]
    fn a_node_that_cannot_be_meant_is_refused_by_name_and_field() {
        let node = |more: Value| {
            let mut node = json!({"name": "a", "execution_kind": "b", "lane_id": "c"});
            node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            order(&json!({"flow_kind": "order", "nodes": [node]})).unwrap_err()
        };
        for (more, field) in [
            (json!({"lane_id": ""}), "lane_id"),
            (json!({"name": ""}), "name"),
            (json!({"name": "{fp:7}:x"}), "name"),
            (json!({"join": {"kind": "quorum"}}), "k"),
            (json!({"join": {"kind": "any_of", "k": 1}}), "k"),
            (json!({"join": {"kind": "all_of", "on_satisfied": "let_run"}}), "on_satisfied"),
            (json!({"join": {"kind": "all_of", "on_impossible": "run"}}), "on_impossible"),
        ] {
            assert_eq!(node(more).field, Some(field));
        }
        assert_eq!(node(json!({"lane_id": ""})).message, "node a: lane_id must not be empty");
        assert_eq!(
            node(json!({"join": {"kind": "quorum"}})).message,
            "node a: k is missing: a quorum waits for so many edges"
        );
    }

    #[test]
    fn an_edge_names_its_ends_by_name_or_by_id() {
        let id = ExecutionId::for_flow(FLOW, Uuid::from_u128(9));
        let body = json!({"edges": [{"from": id, "to": "b"}], "joins": [{"node": id,
            "kind": "any_of"}]});
        let extend: ExtendRequest = serde_json::from_str(&body.to_string()).unwrap();
        let namespace = Namespace::new("shop").unwrap();
        let graph = extend.into_command(FLOW, &namespace).unwrap().graph;
        assert_eq!(graph.links[0].from, NodeRef::Execution(id));
        assert_eq!(graph.links[0].to, NodeRef::Name("b".parse().unwrap()));
        assert_eq!(graph.joins[0].0, NodeRef::Execution(id));
        for (edge, field) in [
            (json!({"from": "{fp:1}:x", "to": "b"}), "from"),
            (json!({"from": "a", "to": "b c"}), "to"),
        ] {
            let body = json!({"edges": [edge]});
            let extend: ExtendRequest = serde_json::from_str(&body.to_string()).unwrap();
            let refused = extend.into_command(FLOW, &namespace).unwrap_err();
            assert_eq!(refused.field, Some(field), "{}", refused.message);
            assert!(refused.message.starts_with(field), "{}", refused.message);
        }
    }
}
