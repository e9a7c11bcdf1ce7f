//! Faults at every store call of a flow's life: whatever is lost, it ends as if nothing had been.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::{Command, Reply};
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::complete::Complete;
use ff_core::decide::create_flow::CreateFlow;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::flow::{
    CancellationPolicy, EdgePolicy, FlowWord, Graph, Link, Node, NodeRef, OnSatisfied,
};
use ff_core::state::PublicState;
use ff_core::text::{Kind, NodeName};
use ff_core::{Backend, ClaimAsk, Claimed, ExecutionId, FlowId};

use crate::faults::{self, Fault, Obstructed, insist};
use crate::world::{World, lane, namespace};

/// Rounds after which a flow must be over.
const ROUNDS_MAX: u32 = 60;

/// The engine's share of a flow's life.
const DUTIES: [Duty; 5] = [
    Duty::CompletionDispatch,
    Duty::EdgeCancelDispatcher,
    Duty::EdgeCancelReconciler,
    Duty::CancelBacklog,
    Duty::DependencyReconciler,
];

struct Story<'w> {
    world: &'w World,
    store: &'w Obstructed<Fault>,
    flow: FlowId,
}

impl Story<'_> {
    fn id(&self, node: &str) -> ExecutionId {
        ExecutionId::for_node(self.flow, &name(node))
    }

    async fn send(&self, command: impl Into<Command>) -> Reply {
        let command = command.into();
        let mut outcomes = insist(|| self.store.apply(vec![command.clone()])).await;
        outcomes.pop().expect("one outcome").expect("it is accepted")
    }

    async fn submit(&self, nodes: &[&str], edges: &[(&str, &str)], joins: &[(&str, EdgePolicy)]) {
        let node = |node: &&str| {
            let kind = Kind::new("job").expect("a valid kind");
            let mut node = Node::new(self.flow, name(node), lane("default"), kind);
            node.create.namespace = namespace("test");
            node
        };
        let at = |node: &str| NodeRef::Name(name(node));
        let graph = Graph {
            nodes: nodes.iter().map(node).collect(),
            links: edges.iter().map(|(from, to)| Link::new(at(from), at(to))).collect(),
            joins: joins.iter().map(|(node, policy)| (at(node), *policy)).collect(),
        };
        let mut flow = CreateFlow::new(self.flow, "test".parse().expect("a valid kind"));
        flow.namespace = namespace("test");
        let (seal, idempotency_key, dedup_window_ms) = (true, None, None);
        self.send(SubmitFlow { flow, graph, seal, idempotency_key, dedup_window_ms }).await;
    }

    async fn claim(&self) -> Vec<Claimed> {
        let ask: ClaimAsk = self.world.ask(10);
        let asks = std::slice::from_ref(&ask);
        insist(|| self.store.claim(asks)).await.given.pop().expect("one answer for one ask")
    }

    async fn complete(&self, work: &Claimed) {
        let (id, fence) = (work.leased.execution.id, work.leased.fence);
        let result = Some(Bytes::from_static(b"out"));
        self.send(Complete { id, fence, result, encoding: None }).await;
    }

    async fn tend(&self) {
        let filter = WorkFilter::default();
        for duty in DUTIES {
            let due = insist(|| self.store.due(duty, &filter, 100)).await;
            for command in due.commands {
                self.send(command).await;
            }
        }
    }

    /// Claims, completes what is not to be left running, and tends to the flow until it is over.
    async fn live(&self, left_running: &[&str]) -> FlowWord {
        let left: BTreeSet<_> = left_running.iter().map(|node| self.id(node)).collect();
        for _ in 0..ROUNDS_MAX {
            for work in self.claim().await {
                if !left.contains(&work.leased.execution.id) {
                    self.complete(&work).await;
                }
            }
            self.tend().await;
            let flow = self.world.flow_state(self.flow).await;
            if flow != FlowWord::Open {
                self.tend().await;
                return flow;
            }
        }
        panic!("flow {} goes nowhere", self.flow);
    }
}

fn name(node: &str) -> NodeName {
    NodeName::new(node).expect("a valid name")
}

/// Tells a story of a flow once for every store call in it, with a fault there.
async fn at_every_call(w: &World, tell: impl AsyncFn(&Story<'_>)) {
    faults::at_every_call(&w.store.backend, async |store| {
        tell(&Story { world: w, store, flow: FlowId(w.uuid()) }).await;
    })
    .await;
}

/// Dispatch, joins and skips.
pub async fn a_fault_in_dispatch_counts_every_edge_once(w: Arc<World>) {
    at_every_call(&w, async |story| {
        let edges = [("a", "c"), ("b", "c"), ("c", "d"), ("b", "d")];
        story.submit(&["a", "b", "c", "d"], &edges, &[]).await;
        assert_eq!(story.live(&[]).await, FlowWord::Completed);
        for node in ["a", "b", "c", "d"] {
            let id = story.id(node);
            assert_eq!(w.state(id).await, PublicState::Completed, "{node}");
            assert_eq!(w.event_names(id).await, ["completion"], "{node}");
        }
    })
    .await;
}

/// Sibling cancellation.
pub async fn a_fault_in_sibling_cancellation_cancels_each_once(w: Arc<World>) {
    at_every_call(&w, async |story| {
        let any = EdgePolicy::any_of(OnSatisfied::CancelRemaining);
        let edges = [("a", "d"), ("b", "d"), ("c", "d"), ("a", "e"), ("b", "e"), ("c", "e")];
        let joins = [("d", any), ("e", any)];
        story.submit(&["a", "b", "c", "d", "e"], &edges, &joins).await;
        assert_eq!(story.live(&["b", "c"]).await, FlowWord::Completed);
        for node in ["b", "c"] {
            let id = story.id(node);
            assert_eq!(w.state(id).await, PublicState::Cancelled, "{node}");
            assert_eq!(w.event_names(id).await, ["lease_revoked", "completion"], "{node}");
        }
    })
    .await;
}

/// Flow cancellation.
pub async fn a_fault_in_flow_cancellation_ends_each_once(w: Arc<World>) {
    at_every_call(&w, async |story| {
        let edges = [("a", "b"), ("b", "c"), ("r", "c")];
        story.submit(&["a", "b", "c", "r"], &edges, &[]).await;
        for work in story.claim().await {
            if work.leased.execution.id == story.id("a") {
                story.complete(&work).await;
            }
        }
        story.tend().await;
        let (policy, reason) = (CancellationPolicy::All, "enough".to_owned());
        story.send(CancelFlow { flow: story.flow, policy, reason }).await;
        assert_eq!(story.live(&["r"]).await, FlowWord::Cancelled);
        assert_eq!(w.state(story.id("a")).await, PublicState::Completed);
        for node in ["b", "c", "r"] {
            let id = story.id(node);
            assert_eq!(w.state(id).await, PublicState::Cancelled, "{node}");
            let ends = w.event_names(id).await;
            assert_eq!(ends.iter().filter(|name| **name == "completion").count(), 1, "{node}");
        }
    })
    .await;
}
