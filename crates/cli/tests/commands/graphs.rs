//! The flows of the stage: one that completed, one on its way, one cancelled, one that still grows.

use ff_core::flow::CancellationPolicy;
use ff_core::{Duty, ExecutionId, FlowId, WorkFilter};
use ff_engine::Wait;
use ff_wire::flow::{FlowOrder, NewFlow};
use serde_json::{Value, json};

use crate::stage::{Past, uuid};

/// Two offers of three are enough.
pub const PARCEL: FlowId = FlowId(uuid(101));
/// Something failed in it, and something waits.
pub const MEDIA: FlowId = FlowId(uuid(102));
/// Nobody wants it.
pub const UNWANTED: FlowId = FlowId(uuid(103));
/// One of its joins spared a member for another.
pub const SPARING: FlowId = FlowId(uuid(105));
/// Not sealed.
pub const GROWING: FlowId = FlowId(uuid(104));

/// A node in a lane of its own, so that a test can say whose turn it is.
pub fn node(name: &str) -> Value {
    json!({"name": name, "execution_kind": "work", "lane_id": name})
}

fn joined(name: &str, k: u32) -> Value {
    let mut node = node(name);
    node["join"] = json!({"kind": "quorum", "k": k});
    node
}

fn edge(from: &str, to: &str, kind: &str) -> Value {
    json!({"from": from, "to": to, "dependency_kind": kind})
}

fn fan(from: &str, between: &[&str], to: &str) -> Vec<Value> {
    let out = between.iter().map(|node| edge(from, node, "success_only"));
    let together = between.iter().map(|node| edge(node, to, "success_only"));
    out.chain(together).collect()
}

impl Past {
    /// All of them, one after the other.
    pub async fn flows(self) {
        self.parcel().await;
        self.media().await;
        let nodes = json!([node("first"), node("second")]);
        let edges = json!([edge("first", "second", "success_only")]);
        self.submit(UNWANTED, json!({"flow_kind": "unwanted", "nodes": nodes, "edges": edges}))
            .await;
        let policy = CancellationPolicy::All;
        self.engine.cancel_flow(UNWANTED, policy, "nobody wants it", Wait::No).await.unwrap();
        self.clock.advance(10);
        let growing = json!({"flow_kind": "growing", "nodes": [node("seed")], "seal": false});
        self.submit(GROWING, growing).await;
    }

    /// Only the flow in which `b` was enough for `j`, and `a` goes on because `k` waits for it.
    pub async fn sparing(self) {
        let nodes: Vec<_> = ["a", "b", "k"].map(node).into_iter().chain([joined("j", 1)]).collect();
        let ends = [("a", "j"), ("b", "j"), ("a", "k")];
        let edges = ends.map(|(from, to)| edge(from, to, "success_only"));
        self.submit(SPARING, json!({"flow_kind": "sparing", "nodes": nodes, "edges": edges})).await;
        self.work("b", 10).await;
    }

    async fn submit(&self, flow: FlowId, graph: Value) {
        let new: NewFlow = serde_json::from_value(graph).unwrap();
        let FlowOrder::Submit(submit) = new.into_order(|| flow).unwrap() else {
            panic!("no nodes")
        };
        self.engine.submit_flow(*submit).await.unwrap();
        self.clock.advance(10);
    }

    /// Works a node off in so many milliseconds.
    async fn work(&self, name: &str, ms: i64) {
        let (id, fence) = self.claim(name).await;
        self.clock.advance(ms);
        self.engine.complete_execution(id, fence, None).await.unwrap();
        self.settle().await;
    }

    /// Has flows learn what ended, until nothing is left to learn.
    async fn settle(&self) {
        let all = WorkFilter::default();
        for _ in 0..4 {
            self.engine.scan_tick(Duty::CompletionDispatch, &all).await.unwrap();
            self.engine.scan_tick(Duty::EdgeCancelDispatcher, &all).await.unwrap();
        }
        self.clock.advance(10);
    }

    async fn parcel(&self) {
        let couriers = ["north", "swift", "tardy"];
        let nodes = ["weigh", "north", "swift", "tardy", "book"].map(node);
        let nodes: Vec<_> = nodes.into_iter().chain([joined("choose", 2)]).collect();
        let mut edges = fan("weigh", &couriers, "choose");
        edges.push(edge("choose", "book", "success_only"));
        let tags = json!({"shop.customer": "ada"});
        let graph = json!({"flow_kind": "parcel", "tags": tags, "nodes": nodes, "edges": edges});
        self.submit(PARCEL, graph).await;
        self.work("weigh", 60).await;
        self.claim("tardy").await;
        self.work("swift", 120).await;
        self.work("north", 80).await;
        self.work("choose", 5).await;
        self.work("book", 15).await;
    }

    async fn media(&self) {
        let renditions = ["360p", "720p", "1080p"];
        let plain =
            ["probe", "360p", "720p", "1080p", "subtitles", "translate", "alert", "publish"];
        let nodes: Vec<_> = plain.map(node).into_iter().chain([joined("package", 2)]).collect();
        let mut edges = fan("probe", &renditions, "package");
        edges.extend([
            edge("probe", "subtitles", "success_only"),
            edge("subtitles", "translate", "success_only"),
            edge("subtitles", "alert", "failure_only"),
            edge("package", "publish", "success_only"),
            edge("translate", "publish", "any_terminal"),
        ]);
        self.submit(MEDIA, json!({"flow_kind": "media", "nodes": nodes, "edges": edges})).await;
        self.work("probe", 40).await;
        self.work("360p", 200).await;
        let held = self.claim("subtitles").await;
        self.clock.advance(5);
        self.fail(held, "no\u{1b}[31m sound").await;
        self.settle().await;
    }
}

/// The execution that a node is.
pub fn member(flow: FlowId, node: &str) -> ExecutionId {
    ExecutionId::for_node(flow, &node.parse().unwrap())
}
