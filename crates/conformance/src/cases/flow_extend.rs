//! Extending flows: from outside while they are open, from inside while a member runs.

use std::sync::Arc;

use ff_core::decide::extend_flow::{ExtendFlow, Extended};
use ff_core::error::Code;
use ff_core::execution::Fence;
use ff_core::flow::{
    CancellationPolicy, DependencyKind, EdgePolicy, FlowState, FlowWord, Graph, GroupWord, Link,
    NodeRef,
};
use ff_core::limits::GRAPH_NODES_MAX;
use ff_core::state::PublicState;
use ff_core::{ExecutionId, FlowId};

use crate::world::{Drawn, Sketch, World, any_let_run, code, name, namespace, quorum};

fn by_name(node: &str) -> NodeRef {
    NodeRef::Name(name(node))
}

/// A sketch that also has `from` lead to `to`, either of which may be in the flow already.
fn linked<'a>(sketch: Sketch<'a>, from: &str, to: &str) -> Sketch<'a> {
    sketch.between(by_name(from), by_name(to))
}

/// Whoever knows an open flow may add to it: nodes, edges and joins, gated at once.
pub async fn an_outsider_extends_an_open_flow(w: Arc<World>) {
    let drawn = w.sketch("a>b").open().submit().await;
    let flow = drawn.flow;
    w.pass(5);
    let more = linked(w.more(flow, "c>e d>e"), "b", "e").join("e", quorum(2));
    let extended = w.run(more.extension(None)).await;
    let expected = Extended { flow_id: flow, graph_revision: 9, node_count: 5 };
    assert_eq!(extended, Ok(expected));
    let row = w.flow(flow).await;
    assert_eq!((row.nodes, row.edges, row.sealed, row.updated_at), (5, 4, false, w.now()));
    let e = drawn.id("e");
    assert_eq!(w.state(e).await, PublicState::WaitingChildren);
    assert_eq!((w.counted(flow, e).await, w.group(flow, e).await.staged), ([3, 0, 0, 0], 3));
    assert_eq!(w.group(flow, e).await.policy, quorum(2));
    for node in ["a", "c", "d"] {
        w.succeed(drawn.id(node)).await;
    }
    w.dispatch().await;
    assert_eq!(w.state(e).await, PublicState::Waiting);
    assert_eq!(w.snapshot(e).await.node, Some(name("e")));
}

/// What was added by hand and what is added in a graph belong together.
pub async fn an_extension_reaches_members_by_id(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let member = w.member(flow).await;
    let more = w.more(flow, "x");
    let more = more.between(NodeRef::Execution(member), by_name("x"));
    more.extend().await.expect("it is open");
    let x = Drawn { flow }.id("x");
    w.succeed(member).await;
    w.dispatch().await;
    assert_eq!(w.state(x).await, PublicState::Waiting);
}

/// An extension may say that it is the last, and is answered the same when it is sent again.
pub async fn an_extension_may_seal(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    let flow = drawn.flow;
    let last = ExtendFlow { seal: true, ..linked(w.more(flow, "b"), "a", "b").extension(None) };
    let extended = w.run(last.clone()).await.expect("it is open");
    assert!(w.flow(flow).await.sealed);
    assert_eq!(w.run(last.clone()).await, Ok(extended.clone()));
    assert_eq!(w.refused(w.more(flow, "c").extension(None)).await.code, Code::FlowSealed);
    for node in ["a", "b"] {
        w.succeed(drawn.id(node)).await;
        w.dispatch().await;
    }
    assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
    assert_eq!(w.run(last).await, Ok(extended), "even when it is over");
}

/// An extension that seals over a quorum out of reach is refused.
pub async fn an_extension_does_not_seal_over_a_quorum_out_of_reach(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, z] = w.members(flow).await;
    w.wait_for(flow, z, quorum(2)).await.expect("nothing is staged");
    w.link(flow, a, z).await;
    let last = |more: Sketch<'_>| ExtendFlow { seal: true, ..more.extension(None) };
    assert_eq!(w.refused(last(w.more(flow, "b"))).await.code, Code::QuorumTooLarge);
    let more = w.more(flow, "b").between(by_name("b"), NodeRef::Execution(z));
    assert!(w.run(last(more)).await.is_ok());
}

/// Extending with nothing but a seal is sealing: a flow that is done is over.
pub async fn sealing_by_extension_ends_a_finished_flow(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let graph = Graph::default();
    let last = ExtendFlow { flow: drawn.flow, graph, seal: true, by: None };
    w.run(last).await.expect("it is open");
    assert_eq!(w.flow(drawn.flow).await.state, FlowState::Completed { at: w.now() });
    assert_eq!(w.flow_event_names(drawn.flow).await, ["flow_ended"]);
}

/// A sealed flow grows from inside only, and is over when all of it is.
pub async fn a_running_member_extends_its_sealed_flow(w: Arc<World>) {
    let drawn = w.sketch("a").submit().await;
    let (flow, a) = (drawn.flow, drawn.id("a"));
    let fence = w.start(a).await;
    assert_eq!(w.refused(w.more(flow, "b").extension(None)).await.code, Code::FlowSealed);
    w.more(flow, "b>c").extend_as(a, fence).await.expect("it runs");
    assert!(w.flow(flow).await.sealed);
    w.complete(a, fence).await.expect("it is held");
    w.dispatch().await;
    assert_eq!(w.flow_state(flow).await, FlowWord::Open);
    for node in ["b", "c"] {
        w.succeed(drawn.id(node)).await;
        w.dispatch().await;
    }
    assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
}

/// Only who holds the member speaks for it.
pub async fn a_stale_fence_extends_nothing(w: Arc<World>) {
    let drawn = w.sketch("a b").submit().await;
    let (flow, a) = (drawn.flow, drawn.id("a"));
    let fence = w.start(a).await;
    let extend = |by| w.more(flow, "x").extension(Some(by));
    let older = Fence { lease_epoch: fence.lease_epoch - 2, ..fence };
    assert_eq!(w.refused(extend((a, older))).await.code, Code::StaleLease);
    assert_eq!(w.refused(extend((drawn.id("b"), fence))).await.code, Code::StaleLease);
    let nobody = drawn.id("nobody");
    assert_eq!(w.refused(extend((nobody, fence))).await.code, Code::ExecutionNotFound);
    w.revoke(a).await.expect("it is held");
    assert_eq!(w.refused(extend((a, fence))).await.code, Code::LeaseRevoked);
    let fence = w.start(a).await;
    w.complete(a, fence).await.expect("it is held");
    assert_eq!(w.refused(extend((a, fence))).await.code, Code::ExecutionNotActive);
    let fence = w.start(drawn.id("b")).await;
    w.pass(30_000);
    assert_eq!(w.refused(extend((drawn.id("b"), fence))).await.code, Code::LeaseExpired);
}

/// A member of one flow does not speak for another.
pub async fn a_member_extends_its_own_flow_only(w: Arc<World>) {
    let own = w.sketch("a").submit().await;
    let other = w.sketch("a").open().submit().await;
    let fence = w.start(own.id("a")).await;
    let by = Some((own.id("a"), fence));
    let refused = w.refused(w.more(other.flow, "x").extension(by)).await;
    assert_eq!(refused.code, Code::ExecutionNotInFlow);
}

/// What is there, and the same, is left as it is.
pub async fn a_repeated_extension_changes_nothing(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    let flow = drawn.flow;
    let more = || linked(w.more(flow, "b>d c>d"), "a", "d").join("d", any_let_run());
    let first = more().extend().await.expect("it is open");
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    w.pass(5);
    let before = w.rows();
    assert_eq!(more().extend().await, Ok(first));
    assert_eq!(w.rows(), before);
    let partly = linked(w.more(flow, "b e"), "b", "e").extend().await.expect("it is open");
    assert_eq!(partly.node_count, 5);
    assert_eq!(w.state(drawn.id("e")).await, PublicState::Waiting, "what it waits for is done");
    // A join into which nothing leads yet.
    let bare = w.more(flow, "f").join("f", EdgePolicy::AllOf).extension(None);
    w.run(bare.clone()).await.expect("it is open");
    let before = w.rows();
    w.run(bare).await.expect("it is there");
    assert_eq!(w.rows(), before);
}

/// A name stands for one thing.
pub async fn a_node_with_other_content_is_a_conflict(w: Arc<World>) {
    let drawn = w.sketch("a>b").open().submit().await;
    let more = w.more(drawn.flow, "a").node("a", |create| create.priority = 1);
    let refused = w.refused(more.extension(None)).await;
    assert_eq!((refused.code, refused.field), (Code::NodeConflict, Some("node")));
    assert_eq!(refused.value.as_deref(), Some("a"));
    let more = w.more(drawn.flow, "a>b").kind("a", "b", DependencyKind::AnyTerminal);
    assert_eq!(w.refused(more.extension(None)).await.code, Code::DependencyAlreadyExists);
}

/// A name whose id somebody took outside the flow is a conflict, too.
pub async fn a_node_whose_id_is_taken_is_a_conflict(w: Arc<World>) {
    let flow = w.empty_flow().await;
    w.create(w.draft_of(Drawn { flow }.id("a"))).await;
    assert_eq!(w.refused(w.more(flow, "a").extension(None)).await.code, Code::NodeConflict);
}

/// New edges and old ones do not form a circle.
pub async fn a_circle_through_what_is_there_is_refused(w: Arc<World>) {
    let drawn = w.sketch("a>b b>c").open().submit().await;
    let flow = drawn.flow;
    for more in [
        linked(w.more(flow, ""), "c", "a"),
        linked(linked(w.more(flow, "x>y"), "c", "x"), "y", "a"),
        linked(linked(w.more(flow, "x"), "b", "x"), "x", "b"),
    ] {
        assert_eq!(w.refused(more.extension(None)).await.code, Code::CycleDetected);
    }
    assert_eq!(w.refused(w.more(flow, "x>y>x").extension(None)).await.code, Code::CycleDetected);
    linked(linked(w.more(flow, "x"), "a", "x"), "x", "c").extend().await.expect("no circle");
}

/// A graph that makes no sense is refused as in a submission.
pub async fn an_extension_that_makes_no_sense_is_refused(w: Arc<World>) {
    let drawn = w.sketch("a>b").open().submit().await;
    let flow = drawn.flow;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.succeed(drawn.id("b")).await;
    let stranger = NodeRef::Execution(w.candidate(flow).await);
    for (more, code) in [
        (linked(w.more(flow, "x"), "x", "nobody"), Code::UnknownNode),
        (linked(w.more(flow, "x"), "nobody", "x"), Code::UnknownNode),
        (w.more(flow, "x").between(stranger, by_name("x")), Code::UnknownNode),
        (w.more(flow, "x").join("nobody", quorum(1)), Code::UnknownNode),
        (linked(w.more(flow, "x"), "x", "b"), Code::ExecutionTerminal),
        (w.more(flow, "x>y").join("y", quorum(2)), Code::QuorumTooLarge),
        (w.more(flow, "x").join("x", quorum(1)), Code::QuorumTooLarge),
        (
            w.more(flow, "x").node("x", |create| create.namespace = namespace("other")),
            Code::InvalidInput,
        ),
    ] {
        let refused = w.refused(more.extension(None)).await;
        assert_eq!(refused.code, code, "{refused}");
    }
    let gone = w.flow_id();
    assert_eq!(w.refused(w.more(gone, "x").extension(None)).await.code, Code::FlowNotFound);
    let many: Vec<_> = (0..=GRAPH_NODES_MAX).map(|n| format!("n{n}")).collect();
    let refused = w.refused(w.more(flow, &many.join(" ")).extension(None)).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("nodes")));
}

/// The rule of a group is fixed with its first edge, and what fired takes no more.
pub async fn an_extension_does_not_change_what_is_decided(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").open().submit().await;
    let flow = drawn.flow;
    let other_rule = linked(w.more(flow, "c"), "c", "z").join("z", any_let_run());
    let refused = w.refused(other_rule.extension(None)).await;
    assert!(refused.message.contains("edge_group_policy_already_fixed"), "{refused}");
    linked(w.more(flow, "c"), "c", "z").extend().await.expect("it is pending");
    for node in ["a", "b", "c"] {
        w.succeed(drawn.id(node)).await;
    }
    w.dispatch().await;
    let late = linked(w.more(flow, "d"), "d", "z");
    assert_eq!(w.refused(late.extension(None)).await.code, Code::GroupAlreadyFired);
}

/// Edges from what has ended are resolved at once, but only when all of them are counted.
pub async fn a_group_fires_when_all_its_edges_are_counted(w: Arc<World>) {
    let drawn = w.sketch("a b c").open().submit().await;
    let flow = drawn.flow;
    w.succeed(drawn.id("a")).await;
    w.fail_for_good(drawn.id("b")).await;
    let to = |node: &str| {
        let more = linked(linked(w.more(flow, node), "a", node), "b", node);
        linked(more, "c", node)
    };
    to("y").join("y", quorum(2)).extend().await.expect("it is open");
    assert_eq!(w.counted(flow, drawn.id("y")).await, [3, 1, 1, 0]);
    assert_eq!(w.state(drawn.id("y")).await, PublicState::WaitingChildren);
    to("x").join("x", any_let_run()).extend().await.expect("it is open");
    assert_eq!(w.state(drawn.id("x")).await, PublicState::Waiting);
    to("z").extend().await.expect("it is open");
    assert_eq!(w.state(drawn.id("z")).await, PublicState::Skipped);
    w.dispatch().await;
    assert_eq!(w.counted(flow, drawn.id("y")).await, [3, 1, 1, 0], "counted once");
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("y")).await, PublicState::Waiting);
}

/// What is skipped the moment it is added tells its own children.
pub async fn a_node_may_be_skipped_as_it_is_added(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    w.fail_for_good(drawn.id("a")).await;
    linked(w.more(drawn.flow, "b>c"), "a", "b").extend().await.expect("it is open");
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Skipped);
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("c")).await, PublicState::Skipped);
    assert_eq!(w.flow(drawn.flow).await.ended.total(), 3);
}

/// A running execution outside any flow becomes the root of one.
pub async fn an_execution_becomes_the_root_of_a_flow(w: Arc<World>) {
    let root = w.create(w.draft()).await;
    let fence = w.start(root).await;
    let flow = FlowId::rooted_at(root);
    let drawn = Drawn { flow };
    w.pass(5);
    let extended = w.more(flow, "x>y").extend_as(root, fence).await;
    assert_eq!(extended, Ok(Extended { flow_id: flow, graph_revision: 4, node_count: 3 }));
    let row = w.flow(flow).await;
    assert_eq!((row.nodes, row.edges, row.sealed), (3, 1, true));
    assert_eq!((row.spec.namespace.clone(), row.spec.created_at), (namespace("test"), w.now()));
    assert_eq!((w.get(root).await.flow(), root.partition()), (Some(flow), flow.partition()));
    assert!(w.renew(root, fence).await.is_ok(), "it runs on");
    w.more(flow, "z").extend_as(root, fence).await.expect("it is its own flow");
    w.complete(root, fence).await.expect("it is held");
    for node in ["x", "y", "z"] {
        w.dispatch().await;
        assert_eq!(w.flow_state(flow).await, FlowWord::Open);
        w.succeed(drawn.id(node)).await;
    }
    w.dispatch().await;
    assert_eq!(w.flow_state(flow).await, FlowWord::Completed);
}

/// An execution is the root of one flow only: the one that has its UUID.
pub async fn an_execution_is_the_root_of_its_own_flow_only(w: Arc<World>) {
    let root = w.create(w.draft()).await;
    let fence = w.start(root).await;
    let other = w.flow_id();
    let by = Some((root, fence));
    assert_eq!(w.refused(w.more(other, "x").extension(by)).await.code, Code::FlowNotFound);
    let own = FlowId::rooted_at(root);
    assert_eq!(w.refused(w.more(own, "x").extension(None)).await.code, Code::FlowNotFound);
    let open = w.empty_flow().await;
    assert_eq!(w.refused(w.more(open, "x").extension(by)).await.code, Code::ExecutionNotInFlow);
}

/// An execution that lies elsewhere than its UUID says cannot be a root.
pub async fn a_root_lies_where_its_flow_does(w: Arc<World>) {
    let uuid = w.uuid();
    let mut beside = w.flow_id();
    while beside.partition() == ff_core::Partition::of(uuid) {
        beside = w.flow_id();
    }
    let root = w.create(w.draft_of(ExecutionId::for_flow(beside, uuid))).await;
    let fence = w.start(root).await;
    let by = Some((root, fence));
    let refused = w.refused(w.more(FlowId::rooted_at(root), "x").extension(by)).await;
    assert_eq!(refused.code, Code::FlowNotFound);
}

/// A running member may add what it waits for itself.
pub async fn a_running_member_waits_for_what_it_adds(w: Arc<World>) {
    let drawn = w.sketch("a").submit().await;
    let (flow, a) = (drawn.flow, drawn.id("a"));
    let fence = w.start(a).await;
    linked(w.more(flow, "x"), "x", "a").extend_as(a, fence).await.expect("it runs");
    assert_eq!(w.state(a).await, PublicState::Active);
    assert_eq!(w.group(flow, a).await.state.word(), GroupWord::Pending);
    let circle = linked(w.more(flow, ""), "a", "x").extension(Some((a, fence)));
    assert_eq!(w.refused(circle).await.code, Code::CycleDetected);
}

/// Two extensions of one batch see each other.
pub async fn two_extensions_of_one_batch_see_each_other(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    let flow = drawn.flow;
    let first = linked(w.more(flow, "b"), "a", "b").extension(None);
    let second = linked(w.more(flow, "c"), "b", "c").extension(None);
    let closing = linked(w.more(flow, ""), "c", "a").extension(None);
    let batch = vec![first.clone().into(), second.into(), closing.into(), first.into()];
    let outcomes = w.batch(batch).await;
    let codes: Vec<_> = outcomes.iter().map(|o| o.as_ref().err().map(|r| r.code)).collect();
    assert_eq!(codes, [None, None, Some(Code::CycleDetected), None]);
    let row = w.flow(flow).await;
    assert_eq!((row.nodes, row.edges), (3, 2));
}

/// A flow that was cancelled grows no more, from nowhere.
pub async fn a_cancelled_flow_is_not_extended(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    let fence = w.start(drawn.id("a")).await;
    w.cancel_flow(drawn.flow, CancellationPolicy::FlowOnly).await.expect("it is open");
    let link = Link::new(by_name("a"), by_name("x"));
    let graph = Graph { links: vec![link], ..w.more(drawn.flow, "x").submission().graph };
    for by in [None, Some((drawn.id("a"), fence))] {
        let extend = ExtendFlow { flow: drawn.flow, graph: graph.clone(), seal: false, by };
        assert_eq!(code(w.run(extend).await), Code::FlowAlreadyTerminal);
    }
}
