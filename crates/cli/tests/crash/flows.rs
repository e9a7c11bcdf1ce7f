//! The same storm over flows: fan-outs and joins, with workers and servers killed under them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ff_core::decide::create_flow::CreateFlow;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::flow::{
    EdgePolicy, EdgeWord, FlowWord, Graph, GroupWord, Link, Node, NodeRef, OnSatisfied,
};
use ff_core::policy::Policy;
use ff_core::query::Direction;
use ff_core::state::PublicState;
use ff_core::{ExecutionId, FlowId};
use ff_engine::Engine;
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

use super::creator::{MAX_RECLAIMS, MAX_RETRIES, Progress};
use super::{PATIENCE, check};

/// Members that fan out in each flow.
const WIDE: usize = 8;
/// Flows that may be open before the submitter waits.
const OPEN_MAX: usize = 20;

/// How a flow joins, and so how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All must succeed, and do.
    All,
    /// Enough must succeed, and do; one never does.
    Enough,
    /// All must succeed, and one never does.
    Never,
}

impl Shape {
    fn of(number: usize) -> Self {
        [Self::All, Self::Enough, Self::Never][number % 3]
    }

    fn submit(self) -> SubmitFlow {
        let flow = FlowId(Uuid::now_v7());
        let at = |name: &str| NodeRef::Name(name.parse().unwrap());
        let mut graph = Graph::default();
        graph.nodes.push(node(flow, "root", "greet"));
        for number in 0..WIDE {
            let name = format!("wide{number}");
            let kind = match (number, self) {
                (0, Self::Enough | Self::Never) => "broken",
                (1, _) => "flaky",
                _ => "greet",
            };
            graph.nodes.push(node(flow, &name, kind));
            graph.links.push(Link::new(at("root"), at(&name)));
            graph.links.push(Link::new(at(&name), at("join")));
        }
        graph.nodes.push(node(flow, "join", "greet"));
        if self == Self::Enough {
            let enough = EdgePolicy::quorum(4, OnSatisfied::LetRun);
            graph.joins.push((at("join"), enough));
        }
        let flow = CreateFlow::new(flow, "crash".parse().unwrap());
        SubmitFlow { flow, graph, seal: true, idempotency_key: None, dedup_window_ms: None }
    }
}

fn node(flow: FlowId, name: &str, kind: &str) -> Node {
    let policy = json!({
        "retry_policy": {"max_retries": MAX_RETRIES,
            "backoff": {"type": "fixed", "delay_ms": 20, "jitter": true}},
        "max_reclaim_count": MAX_RECLAIMS,
    });
    let (lane, kind) = ("crash".parse().unwrap(), kind.parse().unwrap());
    let mut node = Node::new(flow, name.parse().unwrap(), lane, kind);
    node.create.input = bytes::Bytes::from_static(br#""world""#);
    node.create.policy = Policy::parse(&policy).unwrap();
    node
}

/// Submits so many, at the pace of the workers, whatever happens to the server.
pub async fn submit(
    engine: Engine,
    count: usize,
    progress: watch::Sender<Progress>,
) -> BTreeMap<FlowId, Shape> {
    let mut flows = BTreeMap::new();
    while flows.len() < count {
        let shape = Shape::of(flows.len());
        let submission = shape.submit();
        let flow = loop {
            match engine.submit_flow(submission.clone()).await {
                Ok(created) => break created.flow_id(),
                Err(error) => {
                    assert!(error.retryable(), "{error}");
                    progress.send_modify(|so_far| so_far.errors += 1);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        flows.insert(flow, shape);
        progress.send_modify(|so_far| so_far.acknowledged = flows.len());
        wait_for_the_workers(&engine, flows.len()).await;
    }
    flows
}

async fn wait_for_the_workers(engine: &Engine, submitted: usize) {
    while let Ok(counts) = engine.count_executions().await {
        let ended = counts.iter().filter(|count| count.state.is_terminal());
        let ended: u64 = ended.map(|count| count.count).sum();
        let open = u64::try_from((submitted.saturating_sub(OPEN_MAX)) * (WIDE + 2)).unwrap();
        if ended >= open {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every flow has ended as it should, every member once, and every edge was counted once.
pub async fn check(engine: &Engine, flows: &BTreeMap<FlowId, Shape>) {
    let begun = Instant::now();
    let mut completions = BTreeMap::new();
    for (flow, shape) in flows {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        let ended = engine.await_flow(*flow, left).await.unwrap();
        let expected = match shape {
            Shape::All => (FlowWord::Completed, PublicState::Completed),
            Shape::Enough => (FlowWord::Failed, PublicState::Completed),
            Shape::Never => (FlowWord::Failed, PublicState::Skipped),
        };
        assert_eq!(ended.state.word(), expected.0, "{flow} {shape:?}");
        assert_eq!(ended.ended.total(), ended.nodes, "{flow}");
        let join = ExecutionId::for_node(*flow, &"join".parse().unwrap());
        let state = engine.read_execution_state(join).await.unwrap();
        assert_eq!(state, Some(expected.1), "{join} {shape:?}");
        let (members, more) = engine.list_members(*flow, None, 1_000).await.unwrap();
        assert_eq!((members.len(), more), (WIDE + 2, None));
        completions.extend(members.iter().map(|member| (member.execution_id, 1)));
        check_edges(engine, *flow).await;
    }
    assert_eq!(check::completions(engine).await, completions, "each ended once");
}

async fn check_edges(engine: &Engine, flow: FlowId) {
    let (edges, more) = engine.list_edges(flow, Direction::All, None, 1_000).await.unwrap();
    assert_eq!((edges.len(), more), (2 * WIDE, None));
    for edge in &edges {
        let resolved = matches!(edge.edge_state, EdgeWord::Satisfied | EdgeWord::Impossible);
        assert!(resolved && edge.resolved_at.is_some(), "{edge:?}");
    }
    let snapshot = engine.describe_flow(flow).await.unwrap().unwrap();
    for group in &snapshot.edge_groups {
        let into = |edge: &&ff_core::view::EdgeSnapshot| {
            edge.downstream_execution_id == group.downstream_execution_id
        };
        let own: Vec<_> = edges.iter().filter(into).collect();
        let satisfied = own.iter().filter(|edge| edge.edge_state == EdgeWord::Satisfied).count();
        assert_eq!(usize::try_from(group.total_deps).unwrap(), own.len(), "{group:?}");
        assert_eq!(usize::try_from(group.satisfied_count).unwrap(), satisfied, "{group:?}");
        assert_eq!(group.running_count, 0, "{group:?}");
        assert_ne!(group.group_state, GroupWord::Pending, "{group:?}");
    }
}
