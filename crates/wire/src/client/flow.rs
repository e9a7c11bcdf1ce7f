//! What a client says and is told about flows.

use std::collections::HashMap;

use ff_core::decide::add_member::{AddMember, Added};
use ff_core::decide::apply_edge::{Applied, ApplyEdge};
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::create_flow::{CreateFlow, FlowCreated};
use ff_core::decide::extend_flow::{ExtendFlow, Extended};
use ff_core::decide::group_policy::PolicySet;
use ff_core::decide::stage_edge::{StageEdge, Staged};
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::decide::tags::Edit;
use ff_core::decide::wait_children::{WaitChildren, Waiting};
use ff_core::flow::{EdgePolicy, Graph, Link, Node, NodeRef};
use ff_core::{ExecutionId, FlowId, Rejection};

use crate::create::NewExecution;
use crate::flow::edge::{ApplyAnswer, ApplyRequest, StageAnswer, StageRequest};
use crate::flow::graph::{Join, NewEdge, NewJoin, NewNode};
use crate::flow::member::{
    MemberAnswer, MemberRequest, NamedInput, PolicyAnswer, WaitChildrenAnswer, WaitChildrenRequest,
};
use crate::flow::{CancelFlowRequest, CreateFlowAnswer, ExtendAnswer, ExtendRequest, NewFlow};
use crate::lease::HeldLease;
use crate::payload::{Payload, RESULT};
use crate::steer::TagsRequest;

impl From<CreateFlow> for NewFlow {
    fn from(create: CreateFlow) -> Self {
        Self {
            flow_id: Some(create.id.to_string()),
            flow_kind: create.kind.into(),
            namespace: Some(create.namespace.into()),
            creator_identity: Some(create.creator.into()),
            tags: create.tags,
            ..Self::default()
        }
    }
}

impl From<SubmitFlow> for NewFlow {
    fn from(submit: SubmitFlow) -> Self {
        let Parts { nodes, edges, joins } = Parts::new(submit.flow.id, submit.graph);
        debug_assert!(joins.is_empty(), "a submission names only its own nodes");
        Self {
            nodes: Some(nodes),
            edges,
            seal: Some(submit.seal),
            idempotency_key: submit.idempotency_key.map(String::from),
            dedup_window_ms: submit.dedup_window_ms,
            ..submit.flow.into()
        }
    }
}

impl From<ExtendFlow> for ExtendRequest {
    fn from(extend: ExtendFlow) -> Self {
        let ExtendFlow { flow, graph, seal, by } = extend;
        // All nodes are of one namespace, that of the flow, or the call is refused.
        let namespace = graph.nodes.first().map(|node| node.create.namespace.to_string());
        let Parts { nodes, edges, joins } = Parts::new(flow, graph);
        let by =
            by.map(|(id, fence)| HeldLease { execution_id: id.to_string(), fence: fence.into() });
        Self { namespace, nodes, edges, joins, seal, by }
    }
}

/// A graph as requests carry it: a join stays with its node, if that is new.
struct Parts {
    nodes: Vec<NewNode>,
    edges: Vec<NewEdge>,
    joins: Vec<NewJoin>,
}

impl Parts {
    fn new(flow: FlowId, graph: Graph) -> Self {
        let Graph { nodes, links, joins } = graph;
        let places: HashMap<ExecutionId, usize> =
            nodes.iter().enumerate().map(|(at, node)| (node.create.id, at)).collect();
        let mut nodes: Vec<_> = nodes.into_iter().map(NewNode::from).collect();
        let mut others = Vec::new();
        for (node, policy) in joins {
            match places.get(&node.id(flow)) {
                Some(at) if nodes[*at].join.is_none() => nodes[*at].join = Some(policy.into()),
                // Of what is there already, or a second one, which the server refuses.
                Some(_) | None => others.push(join(&node, policy)),
            }
        }
        Self { nodes, edges: links.into_iter().map(NewEdge::from).collect(), joins: others }
    }
}

fn join(node: &NodeRef, policy: EdgePolicy) -> NewJoin {
    let Join { kind, k, on_satisfied, on_impossible } = policy.into();
    NewJoin { node: node.to_string(), kind, k, on_satisfied, on_impossible }
}

impl From<Node> for NewNode {
    fn from(node: Node) -> Self {
        let new = NewExecution::from(node.create);
        Self {
            name: node.name.into(),
            execution_kind: new.execution_kind,
            lane_id: new.lane_id,
            input: new.input,
            input_base64: new.input_base64,
            encoding: new.encoding,
            priority: new.priority,
            creator_identity: new.creator_identity,
            tags: new.tags,
            policy: new.policy,
            delay_until: new.delay_until,
            delay_ms: new.delay_ms,
            deadline_at: new.deadline_at,
            join: None,
        }
    }
}

impl From<Link> for NewEdge {
    fn from(link: Link) -> Self {
        Self {
            from: link.from.to_string(),
            to: link.to.to_string(),
            dependency_kind: Some(link.kind),
            name: link.name.map(String::from),
            data_passing_ref: link.data_passing_ref,
        }
    }
}

impl From<AddMember> for MemberRequest {
    fn from(add: AddMember) -> Self {
        Self { execution_id: add.execution.to_string() }
    }
}

impl From<StageEdge> for StageRequest {
    fn from(edge: StageEdge) -> Self {
        Self {
            edge_id: Some(edge.edge.to_string()),
            upstream_execution_id: edge.upstream.to_string(),
            downstream_execution_id: edge.downstream.to_string(),
            dependency_kind: Some(edge.kind),
            name: edge.name.map(String::from),
            data_passing_ref: edge.data_passing_ref,
            expected_graph_revision: edge.expected_revision,
        }
    }
}

impl From<ApplyEdge> for ApplyRequest {
    fn from(apply: ApplyEdge) -> Self {
        Self {
            edge_id: apply.edge.to_string(),
            upstream_execution_id: apply.upstream.map(|id| id.to_string()),
            downstream_execution_id: apply.downstream.map(|id| id.to_string()),
        }
    }
}

impl From<Edit> for TagsRequest {
    fn from(edit: Edit) -> Self {
        Self { set: edit.set, remove: edit.remove, version: edit.version }
    }
}

impl From<CancelFlow> for CancelFlowRequest {
    fn from(cancel: CancelFlow) -> Self {
        Self { cancellation_policy: cancel.policy, reason: cancel.reason }
    }
}

impl From<WaitChildren> for WaitChildrenRequest {
    fn from(wait: WaitChildren) -> Self {
        Self { fence: wait.fence.into(), flow_id: Some(wait.flow.to_string()) }
    }
}

impl From<CreateFlowAnswer> for FlowCreated {
    fn from(answer: CreateFlowAnswer) -> Self {
        match answer {
            CreateFlowAnswer::Created { flow_id, .. } => Self::Created { flow_id },
            CreateFlowAnswer::Duplicate { flow_id, .. } => Self::Duplicate { flow_id },
        }
    }
}

impl From<ExtendAnswer> for Extended {
    fn from(answer: ExtendAnswer) -> Self {
        let ExtendAnswer { flow_id, graph_revision, node_count, nodes: _ } = answer;
        Self { flow_id, graph_revision, node_count }
    }
}

impl From<MemberAnswer> for Added {
    fn from(answer: MemberAnswer) -> Self {
        match answer {
            MemberAnswer::Added { node_count } => Self::Added { node_count },
            MemberAnswer::AlreadyMember { node_count } => Self::AlreadyMember { node_count },
        }
    }
}

impl From<StageAnswer> for Staged {
    fn from(answer: StageAnswer) -> Self {
        let StageAnswer::Staged { edge_id, graph_revision } = answer;
        Self { edge_id, graph_revision }
    }
}

impl From<ApplyAnswer> for Applied {
    fn from(answer: ApplyAnswer) -> Self {
        match answer {
            ApplyAnswer::Applied { unsatisfied_count } => Self::Applied { unsatisfied_count },
            ApplyAnswer::AlreadyApplied => Self::AlreadyApplied,
        }
    }
}

impl From<PolicyAnswer> for PolicySet {
    fn from(answer: PolicyAnswer) -> Self {
        match answer {
            PolicyAnswer::Set => Self::Set,
            PolicyAnswer::AlreadySet => Self::AlreadySet,
        }
    }
}

impl From<WaitChildrenAnswer> for Waiting {
    fn from(answer: WaitChildrenAnswer) -> Self {
        match answer {
            WaitChildrenAnswer::Waiting => Self::Waiting,
            WaitChildrenAnswer::Ready => Self::Ready,
        }
    }
}

impl NamedInput {
    /// The result, if there is one.
    pub fn into_payload(self) -> Result<Option<Payload>, Rejection> {
        Payload::read(RESULT, (self.result, self.result_base64, self.encoding))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ff_core::Fence;
    use ff_core::flow::{DependencyKind, OnImpossible, OnSatisfied};
    use ff_core::text::{FlowKind, Namespace};
    use uuid::Uuid;

    use super::*;
    use crate::flow::FlowOrder;

    const FLOW: FlowId = FlowId(Uuid::from_u128(7));

    fn graph() -> Graph {
        let node = |name: &str| {
            let (lane, kind) = ("lane".parse().unwrap(), "kind".parse().unwrap());
            let mut node = Node::new(FLOW, name.parse().unwrap(), lane, kind);
            node.create.namespace = Namespace::new("shop").unwrap();
            node.create.priority = 4;
            node
        };
        let name = |name: &str| NodeRef::Name(name.parse().unwrap());
        let mut link = Link::new(name("a"), name("b"));
        link.kind = DependencyKind::FailureOnly;
        link.name = Some("first".parse().unwrap());
        link.data_passing_ref = Some("result".to_owned());
        let policy = EdgePolicy::quorum(1, OnSatisfied::LetRun);
        let joins = vec![(name("b"), policy)];
        Graph { nodes: vec![node("a"), node("b")], links: vec![link], joins }
    }

    #[test]
    fn a_submission_is_read_as_it_was_meant() {
        let mut flow = CreateFlow::new(FLOW, FlowKind::new("order").unwrap());
        flow.namespace = Namespace::new("shop").unwrap();
        flow.tags = [("shop.order".to_owned(), "7".to_owned())].into();
        let submit = SubmitFlow {
            flow: flow.clone(),
            graph: graph(),
            seal: false,
            idempotency_key: Some("k".parse().unwrap()),
            dedup_window_ms: Some(5),
        };
        let never = || panic!("an id is given");
        let order = NewFlow::from(submit.clone()).into_order(never).unwrap();
        assert_eq!(order, FlowOrder::Submit(Box::new(submit)));
        let order = NewFlow::from(flow.clone()).into_order(never).unwrap();
        assert_eq!(order, FlowOrder::Create(flow));
    }

    #[test]
    fn an_extension_is_read_as_it_was_meant() {
        let mut graph = graph();
        let old = ExecutionId::for_flow(FLOW, Uuid::from_u128(9));
        graph.links.push(Link::new(NodeRef::Execution(old), NodeRef::Name("a".parse().unwrap())));
        let policy = EdgePolicy::AnyOf {
            on_satisfied: OnSatisfied::CancelRemaining,
            on_impossible: OnImpossible::Run,
        };
        graph.joins.push((NodeRef::Execution(old), policy));
        let by = Some((old, Fence { attempt_index: 1, lease_epoch: 2 }));
        let extend = ExtendFlow { flow: FLOW, graph, seal: true, by };
        let request = ExtendRequest::from(extend.clone());
        let namespace = Namespace::new(request.namespace.clone().unwrap()).unwrap();
        assert_eq!(request.into_command(FLOW, &namespace).unwrap(), extend);
    }
}
