//! Submitting a graph: all of it at once, once, or nothing.
#![allow(clippy::many_single_char_names, reason = "nodes of a sketch are called a, b, c")]

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::decide::create::Create;
use ff_core::decide::create_flow::FlowCreated;
use ff_core::decide::submit_flow::SubmitFlow;
use ff_core::error::{Class, Code};
use ff_core::flow::{
    DependencyKind, EdgePolicy, EdgeState, EdgeWord, FlowState, GroupState, Link, NodeRef,
};
use ff_core::limits::{GRAPH_EDGES_MAX, GRAPH_NODES_MAX};
use ff_core::query::Direction;
use ff_core::state::PublicState;
use ff_core::text::{EdgeName, IdempotencyKey};
use ff_core::{EdgeId, ExecutionId, Policy};
use serde_json::json;

use super::calls::tags;
use crate::world::{Sketch, World, any_of, lane, name, namespace, quorum};

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect("a valid key")
}

/// Roots are claimable at once, and nothing else is.
pub async fn a_submitted_graph_is_gated_at_once(w: Arc<World>) {
    let drawn = w.sketch("a>c b>c c>d").submit().await;
    let [a, b, c, d] = drawn.ids(["a", "b", "c", "d"]);
    let flow = w.flow(drawn.flow).await;
    assert_eq!((flow.nodes, flow.edges, flow.revision, flow.version), (4, 3, 7, 1));
    assert_eq!((flow.sealed, flow.state), (true, FlowState::Open));
    assert_eq!(w.take_ids(10).await.into_iter().collect::<BTreeSet<_>>(), [a, b].into());
    for id in [c, d] {
        assert_eq!(w.state(id).await, PublicState::WaitingChildren);
    }
    for edge in w.edges(drawn.flow, Direction::All).await {
        assert_eq!(edge.state, EdgeState::Unsatisfied { applied_at: w.now() });
        assert_eq!(edge.kind, DependencyKind::SuccessOnly);
    }
    let group = w.group(drawn.flow, c).await;
    assert_eq!(
        (group.policy, group.state, group.round),
        (EdgePolicy::AllOf, GroupState::Pending, 0)
    );
    assert_eq!((group.staged, w.counted(drawn.flow, c).await), (2, [2, 0, 0, 0]));
    assert_eq!(w.find_group(drawn.flow, a).await, None);
}

/// Names decide ids: whoever has the flow's id and a name finds the member, and the edge.
pub async fn ids_follow_from_names(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let (flow, [a, b]) = (drawn.flow, drawn.ids(["a", "b"]));
    assert_eq!(a, ExecutionId::for_node(flow, &name("a")));
    let x = w.get(a).await;
    assert_eq!(x.member.as_ref().and_then(|member| member.node.clone()), Some(name("a")));
    assert_eq!((x.flow(), x.id.partition()), (Some(flow), flow.partition()));
    assert_eq!(w.snapshot(b).await.node, Some(name("b")));
    assert_eq!(w.edge(flow, a, b).await.id, EdgeId::between(flow, a, b));
    let other = w.sketch("a").submit().await;
    assert_ne!(other.id("a"), a);
}

/// What was said of each node holds for it.
pub async fn nodes_are_created_as_drafted(w: Arc<World>) {
    let later = w.now().plus(500);
    let policy = json!({"timeout_policy": {"execution_deadline_ms": 900}, "retention_ms": 3});
    let sketch = w.sketch("a b c>d e").node("a", |create| create.priority = 5);
    let sketch = sketch.node("b", |create| {
        create.delay_until = Some(later);
        create.input = "special".into();
    });
    let sketch = sketch.node("d", |create| {
        create.policy = Policy::parse(&policy).expect("a valid policy");
        create.tags = tags(&[("app.a", "1")]);
    });
    let drawn = sketch.node("e", |create| create.lane = lane("elsewhere")).submit().await;
    let [a, b, c, d, e] = drawn.ids(["a", "b", "c", "d", "e"]);
    assert_eq!(w.state(b).await, PublicState::Delayed);
    assert_eq!(w.take_ids(10).await, [a, c], "the more urgent goes first");
    let x = w.get(d).await;
    assert_eq!((x.deadline_at, x.spec.policy.retention_ms), (Some(w.now().plus(900)), Some(3)));
    assert_eq!(x.tags, tags(&[("app.a", "1")]));
    assert_eq!(w.get(e).await.spec.lane, lane("elsewhere"));
    w.pass(500);
    assert_eq!(w.input_of(b).await, Some("special".into()));
}

/// Edges carry their kind, name and reference; joins their rule.
pub async fn edges_and_joins_are_kept_as_drafted(w: Arc<World>) {
    let left = EdgeName::new("left").expect("a valid name");
    let sketch = w.sketch("a>c b>c").join("c", quorum(2)).passing("a", "c");
    let sketch = sketch.link("a", "c", |link| link.name = Some(left.clone()));
    let drawn = sketch.kind("b", "c", DependencyKind::FailureOnly).submit().await;
    let [a, b, c] = drawn.ids(["a", "b", "c"]);
    let edge = w.edge(drawn.flow, a, c).await;
    assert_eq!((edge.name, edge.data_passing_ref.as_deref()), (Some(left), Some("result")));
    assert_eq!(w.edge(drawn.flow, b, c).await.kind, DependencyKind::FailureOnly);
    assert_eq!(w.group(drawn.flow, c).await.policy, quorum(2));
}

/// The same submission twice is one flow.
pub async fn the_same_submission_twice_is_one_flow(w: Arc<World>) {
    let submission = w.sketch("a>b").submission();
    let flow_id = submission.flow.id;
    assert_eq!(w.run(submission.clone()).await, Ok(FlowCreated::Created { flow_id }));
    w.succeed(ExecutionId::for_node(flow_id, &name("a"))).await;
    w.dispatch().await;
    w.pass(5);
    let before = w.rows();
    assert_eq!(w.run(submission.clone()).await, Ok(FlowCreated::Duplicate { flow_id }));
    assert_eq!(w.rows(), before);
    let both = w.batch(vec![submission.clone().into(), submission.into()]).await;
    assert!(both.iter().all(Result::is_ok), "{both:?}");
    assert_eq!(w.rows(), before);
}

/// Two submissions of one graph in one batch are one flow.
pub async fn two_submissions_in_one_batch_are_one(w: Arc<World>) {
    let submission = w.sketch("a>b").submission();
    let flow = submission.flow.id;
    let outcomes = w.batch(vec![submission.clone().into(), submission.into()]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(w.flow(flow).await.nodes, 2);
    assert_eq!(w.take_ids(10).await.len(), 1);
}

/// A conflict names what differs.
pub async fn the_same_id_with_other_content_names_the_field(w: Arc<World>) {
    let flow = w.flow_id();
    let draw = |text: &str| w.more(flow, text);
    draw("a>b c>b").submit().await;
    let differing: [(Sketch<'_>, &str); 8] = [
        (
            draw("a>b c>b").with(|s| {
                s.flow.namespace = namespace("other");
                s.graph.nodes.iter_mut().for_each(|n| n.create.namespace = namespace("other"));
            }),
            "namespace",
        ),
        (draw("a>b c>b").with(|s| s.flow.kind = crate::world::kind("other")), "flow_kind"),
        (draw("a>b c>b").with(|s| s.flow.tags = tags(&[("app.a", "1")])), "tags"),
        (draw("a>b c>b d"), "nodes"),
        (draw("a>b c>b").node("a", |create| create.priority = 1), "nodes"),
        (draw("a>b a>c"), "edges"),
        (draw("a>b c>b").join("b", any_of()), "joins"),
        (draw("a>b c>b").open(), "seal"),
    ];
    for (sketch, field) in differing {
        let refused = w.refused(sketch.submission()).await;
        assert_eq!((refused.code, refused.field), (Code::FlowIdConflict, Some(field)));
        assert_eq!(refused.code.class(), Class::Conflict);
    }
}

fn keyed(sketch: Sketch<'_>, text: &str) -> SubmitFlow {
    sketch.with(|submission| submission.idempotency_key = Some(key(text))).submission()
}

/// The same key finds the original under whatever id it is sent again.
pub async fn the_same_key_finds_the_original(w: Arc<World>) {
    let first = keyed(w.sketch("a>b"), "k");
    let flow_id = first.flow.id;
    assert_eq!(w.run(first).await, Ok(FlowCreated::Created { flow_id }));
    let before = w.rows();
    let again = keyed(w.sketch("a>b"), "k");
    assert_ne!(again.flow.id, flow_id);
    assert_eq!(w.run(again).await, Ok(FlowCreated::Duplicate { flow_id }));
    assert_eq!(w.rows(), before);
    let refused = w.refused(keyed(w.sketch("a>b c"), "k")).await;
    assert_eq!((refused.code, refused.field), (Code::IdempotencyKeyConflict, Some("nodes")));
    assert!(refused.message.contains(&flow_id.to_string()), "{refused}");
    w.pass(86_400_000);
    let again = keyed(w.sketch("a>b"), "k");
    let flow_id = again.flow.id;
    assert_eq!(w.run(again).await, Ok(FlowCreated::Created { flow_id }), "it is forgotten");
}

/// A key may be remembered for a time of its own.
pub async fn a_submission_sets_the_window_of_its_key(w: Arc<World>) {
    let keyed = || {
        let mut submission = keyed(w.sketch("a"), "k");
        submission.dedup_window_ms = Some(10);
        submission
    };
    w.run(keyed()).await.expect("it is valid");
    w.pass(10);
    let created = w.run(keyed()).await;
    assert!(matches!(created, Ok(FlowCreated::Created { .. })), "{created:?}");
    let alone = SubmitFlow { idempotency_key: None, ..keyed() };
    let refused = w.refused(alone).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("dedup_window_ms")));
}

/// One key names one thing: what an execution was created under is taken for a flow.
pub async fn a_key_names_an_execution_or_a_flow(w: Arc<World>) {
    w.create(Create { idempotency_key: Some(key("x")), ..w.draft() }).await;
    let refused = w.refused(keyed(w.sketch("a"), "x")).await;
    assert_eq!(refused.code, Code::IdempotencyKeyConflict);
    w.run(keyed(w.sketch("a"), "f")).await.expect("it is valid");
    let refused = w.refused(Create { idempotency_key: Some(key("f")), ..w.draft() }).await;
    assert_eq!(refused.code, Code::IdempotencyKeyConflict);
}

/// A refused submission leaves its key, and its id, to a better one.
pub async fn a_refused_submission_does_not_use_up_its_key(w: Arc<World>) {
    let flow = w.flow_id();
    let circle = keyed(w.more(flow, "a>b b>a"), "k");
    assert_eq!(w.refused(circle).await.code, Code::CycleDetected);
    let created = w.run(keyed(w.more(flow, "a>b"), "k")).await;
    assert_eq!(created, Ok(FlowCreated::Created { flow_id: flow }));
}

/// A graph that can never run is refused, and nothing of it is written.
pub async fn a_graph_that_makes_no_sense_is_refused(w: Arc<World>) {
    let stray = |text: &str| NodeRef::Name(name(text));
    let twice = |s: &mut SubmitFlow| s.graph.nodes.push(s.graph.nodes[0].clone());
    let parallel = |s: &mut SubmitFlow| s.graph.links.push(s.graph.links[0].clone());
    let to_itself = |s: &mut SubmitFlow| s.graph.links.push(Link::new(stray("a"), stray("a")));
    let left = |link: &mut Link| link.name = Some(EdgeName::new("left").expect("a valid name"));
    let elsewhere = ExecutionId::for_flow(w.flow_id(), w.uuid());
    let far = w.now().plus(u64::MAX / 4);
    for (sketch, code, field) in [
        (w.sketch("a>b>c>a"), Code::CycleDetected, None),
        (w.sketch("a>b b>a c"), Code::CycleDetected, None),
        (w.sketch("a").with(to_itself), Code::SelfReferencingEdge, None),
        (w.sketch("a>b").with(parallel), Code::DependencyAlreadyExists, None),
        (w.sketch("a b").between(stray("a"), stray("x")), Code::UnknownNode, Some("node")),
        (w.sketch("a b").between(stray("x"), stray("a")), Code::UnknownNode, Some("node")),
        (
            w.sketch("a").between(NodeRef::Execution(elsewhere), stray("a")),
            Code::UnknownNode,
            Some("node"),
        ),
        (w.sketch("a>b").join("x", any_of()), Code::UnknownNode, Some("node")),
        (w.sketch("a>b").with(twice), Code::InvalidInput, Some("node")),
        (w.sketch("a>c b>c").join("c", quorum(3)), Code::QuorumTooLarge, Some("k")),
        (w.sketch("a>c b>c").join("c", quorum(0)), Code::InvalidInput, Some("k")),
        (w.sketch("a>b").join("a", any_of()), Code::InvalidInput, Some("join")),
        (w.sketch("a>b").join("b", any_of()).join("b", any_of()), Code::InvalidInput, Some("join")),
        (w.sketch(""), Code::InvalidInput, Some("nodes")),
        (
            w.sketch("a>c b>c").link("a", "c", left).link("b", "c", left),
            Code::InvalidInput,
            Some("edge_name"),
        ),
        (
            w.sketch("a>b").link("a", "b", |link| link.data_passing_ref = Some(String::new())),
            Code::InvalidInput,
            Some("data_passing_ref"),
        ),
        (
            w.sketch("a b").node("b", |create| create.priority = 9_001),
            Code::InvalidInput,
            Some("priority"),
        ),
        (
            w.sketch("a b").node("b", |create| create.namespace = namespace("other")),
            Code::InvalidInput,
            Some("namespace"),
        ),
        (
            w.sketch("a b").node("b", |create| create.id = elsewhere),
            Code::InvalidInput,
            Some("execution_id"),
        ),
        (
            w.sketch("a b").node("b", |create| create.idempotency_key = Some(key("k"))),
            Code::InvalidInput,
            Some("idempotency_key"),
        ),
        (
            w.sketch("a b").node("b", |create| create.delay_until = Some(far)),
            Code::InvalidInput,
            Some("delay_until"),
        ),
    ] {
        let refused = w.refused(sketch.submission()).await;
        assert_eq!((refused.code, refused.field), (code, field), "{refused}");
    }
    let tables = (w.store.dump)();
    assert!(tables.flows.is_empty() && tables.executions.is_empty() && tables.edges.is_empty());
}

/// A node whose id somebody took is refused, and what is there stays as it was.
pub async fn a_node_whose_id_is_taken_is_refused(w: Arc<World>) {
    let flow = w.flow_id();
    let taken = w.create(w.draft_of(ExecutionId::for_node(flow, &name("b")))).await;
    let refused = w.refused(w.more(flow, "a>b").submission()).await;
    assert_eq!((refused.code, refused.field), (Code::NodeConflict, Some("node")));
    assert_eq!(refused.value.as_deref(), Some("b"));
    w.take(taken).await;
}

/// One call adds a bounded number of nodes and edges.
pub async fn a_graph_that_is_too_large_is_refused(w: Arc<World>) {
    let nodes: Vec<_> = (0..=GRAPH_NODES_MAX).map(|n| format!("n{n}")).collect();
    let refused = w.refused(w.sketch(&nodes.join(" ")).submission()).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("nodes")));
    let mut submission = w.sketch("a>b").submission();
    submission.graph.links = vec![submission.graph.links[0].clone(); GRAPH_EDGES_MAX + 1];
    let refused = w.refused(submission).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("edges")));
}

/// Bad tags of the flow are refused like those of an execution.
pub async fn bad_tags_of_a_flow_are_refused(w: Arc<World>) {
    for key in ["nodot", "app.", "App.x", "app..x"] {
        let sketch = w.sketch("a").with(|submission| submission.flow.tags = tags(&[(key, "1")]));
        assert_eq!(w.refused(sketch.submission()).await.code, Code::InvalidTagKey);
    }
}

/// A flow is submitted with its own tags, and as open as it was said.
pub async fn a_flow_is_submitted_as_drafted(w: Arc<World>) {
    let sketch = w.sketch("a").open().with(|s| s.flow.tags = tags(&[("app.a", "1")]));
    let drawn = sketch.submit().await;
    let flow = w.flow(drawn.flow).await;
    assert_eq!((flow.sealed, flow.tags), (false, tags(&[("app.a", "1")])));
    assert_eq!((flow.spec.created_at, flow.spec.namespace), (w.now(), namespace("test")));
    assert!(w.told(drawn.flow).await.is_empty(), "creation is the row itself");
}

/// A wide graph takes one call, and its middle becomes claimable all together.
pub async fn a_wide_graph_is_submitted_in_one_call(w: Arc<World>) {
    let sketch = (0..300).map(|n| format!("s>n{n}>z")).collect::<Vec<_>>().join(" ");
    let drawn = w.sketch(&sketch).submit().await;
    let flow = w.flow(drawn.flow).await;
    assert_eq!((flow.nodes, flow.edges), (302, 600));
    w.succeed(drawn.id("s")).await;
    w.dispatch().await;
    assert_eq!(w.take_ids(1_000).await.len(), 300);
    let state = w.edge(drawn.flow, drawn.id("n7"), drawn.id("z")).await.state.word();
    assert_eq!(state, EdgeWord::Unsatisfied);
}
