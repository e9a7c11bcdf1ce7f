//! Staging edges: what is written down, and what never becomes a graph.
#![allow(clippy::many_single_char_names, reason = "nodes of a sketch are called a, b, c")]

use std::sync::Arc;

use ff_core::decide::add_member::AddMember;
use ff_core::decide::extend_flow::ExtendFlow;
use ff_core::decide::stage_edge::StageEdge;
use ff_core::error::{Class, Code};
use ff_core::flow::{
    CancellationPolicy, DependencyKind, Edge, EdgeState, Graph, GroupState, Link, NodeRef,
};
use ff_core::state::PublicState;
use ff_core::text::EdgeName;
use ff_core::{Command, EdgeId, ExecutionId};

use crate::world::World;

fn left() -> EdgeName {
    EdgeName::new("left").expect("a valid name")
}

/// A staged edge is written down as it was said, and holds nothing back.
pub async fn a_staged_edge_holds_nothing_back(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    w.pass(5);
    let staging = StageEdge {
        kind: DependencyKind::AnyTerminal,
        name: Some(left()),
        data_passing_ref: Some("result".to_owned()),
        ..w.staging(flow, up, down).await
    };
    let staged = w.run(staging.clone()).await.expect("the edge is valid");
    assert_eq!((staged.edge_id, staged.graph_revision), (staging.edge, 3));
    let expected = Edge {
        id: staging.edge,
        flow,
        upstream: up,
        downstream: down,
        kind: DependencyKind::AnyTerminal,
        name: Some(left()),
        data_passing_ref: Some("result".to_owned()),
        round: 0,
        created_at: w.now(),
        state: EdgeState::Staged,
    };
    assert_eq!(w.edge(flow, up, down).await, expected);
    let row = w.flow(flow).await;
    assert_eq!((row.nodes, row.edges, row.revision, row.updated_at), (2, 1, 3, w.now()));
    let group = w.group(flow, down).await;
    assert_eq!((group.staged, group.counters.total, group.state), (1, 0, GroupState::Pending));
    assert_eq!(w.state(down).await, PublicState::Waiting);
    w.start(down).await;
}

/// Whoever saw an older graph is told so, and nothing changes.
pub async fn a_stale_revision_changes_nothing(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, c] = w.members(flow).await;
    let seen = w.staging(flow, b, c).await;
    w.stage(flow, a, b).await.expect("the edge is valid");
    let refused = w.refused(seen.clone()).await;
    assert_eq!(refused.code, Code::StaleGraphRevision);
    assert_eq!(refused.code.class(), Class::Contention);
    let early = StageEdge { expected_revision: seen.expected_revision + 2, ..seen };
    assert_eq!(w.refused(early).await.code, Code::StaleGraphRevision);
}

/// Two edges of one batch: the second has not seen the first.
pub async fn the_second_edge_of_a_batch_sees_the_first(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, c] = w.members(flow).await;
    let first = w.staging(flow, a, b).await;
    let stale = w.staging(flow, b, c).await;
    let fresh = StageEdge { expected_revision: stale.expected_revision + 1, ..stale.clone() };
    let outcomes = w.batch(vec![first.into(), stale.into(), fresh.into()]).await;
    let codes: Vec<_> = outcomes.iter().map(|o| o.as_ref().err().map(|r| r.code)).collect();
    assert_eq!(codes, [None, Some(Code::StaleGraphRevision), None]);
    assert_eq!(w.flow(flow).await.edges, 2);
}

/// A circle is refused, however long it is.
pub async fn a_circle_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let chain: [ExecutionId; 5] = w.members(flow).await;
    for at in 1..chain.len() {
        w.stage(flow, chain[at - 1], chain[at]).await.expect("no circle yet");
        for earlier in &chain[..at] {
            let closing = w.staging(flow, chain[at], *earlier).await;
            let refused = w.refused(closing).await;
            assert_eq!(refused.code, Code::CycleDetected);
            assert_eq!(refused.code.class(), Class::Conflict);
        }
    }
    let [first, .., last] = chain;
    w.stage(flow, first, last).await.expect("a shortcut is no circle");
}

/// Whether edges hold anything back or are over makes no difference to what is a circle.
pub async fn edges_in_any_state_close_a_circle(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, c] = w.members(flow).await;
    w.link(flow, a, b).await;
    w.link(flow, b, c).await;
    w.succeed(a).await;
    w.dispatch().await;
    let after = StageEdge { downstream: b, ..w.staging(flow, c, a).await };
    assert_eq!(w.refused(after).await.code, Code::CycleDetected);
}

/// The edges of one batch may not form a circle either, alone or with what is there.
pub async fn a_circle_inside_one_batch_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, c, d] = w.members(flow).await;
    w.stage(flow, b, c).await.expect("no circle yet");
    let next = async |from, to, nth: u64| -> Command {
        let staging = w.staging(flow, from, to).await;
        let expected_revision = staging.expected_revision + nth;
        StageEdge { expected_revision, ..staging }.into()
    };
    let batch = vec![next(c, d, 0).await, next(a, b, 1).await, next(d, a, 2).await];
    let outcomes = w.batch(batch).await;
    assert!(outcomes[0].is_ok() && outcomes[1].is_ok(), "{outcomes:?}");
    assert_eq!(outcomes[2].as_ref().map_err(|r| r.code), Err(Code::CycleDetected));
    assert_eq!(w.flow(flow).await.edges, 3);
}

/// An edge staged and a graph added in the same batch may not form a circle with what is there.
pub async fn a_circle_over_two_kinds_of_calls_is_refused(w: Arc<World>) {
    for extends_first in [true, false] {
        let flow = w.empty_flow().await;
        let [a, b, c] = w.members(flow).await;
        w.stage(flow, b, c).await.expect("no circle yet");
        let link = Link::new(NodeRef::Execution(c), NodeRef::Execution(a));
        let graph = Graph { links: vec![link], ..Graph::default() };
        let extension = ExtendFlow { flow, graph, seal: false, by: None };
        let staging = w.staging(flow, a, b).await;
        let later = staging.expected_revision + u64::from(extends_first);
        let staging = StageEdge { expected_revision: later, ..staging };
        let mut batch: Vec<Command> = vec![extension.into(), staging.into()];
        if !extends_first {
            batch.reverse();
        }
        let outcomes = w.batch(batch).await;
        assert!(outcomes[0].is_ok(), "{outcomes:?}");
        assert_eq!(outcomes[1].as_ref().map_err(|r| r.code), Err(Code::CycleDetected));
    }
}

/// Nothing waits for itself.
pub async fn an_edge_to_itself_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a] = w.members(flow).await;
    let refused = w.refused(w.staging(flow, a, a).await).await;
    assert_eq!((refused.code, refused.code.class()), (Code::SelfReferencingEdge, Class::Conflict));
}

/// An edge that is there is named, whether its id or its ends are the same.
pub async fn an_edge_is_staged_once(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, c] = w.members(flow).await;
    let edge = w.stage(flow, a, b).await.expect("the edge is valid").edge_id;
    let same_id = StageEdge { edge, ..w.staging(flow, b, c).await };
    let same_ends = w.staging(flow, a, b).await;
    for staging in [same_id, same_ends] {
        let refused = w.refused(staging).await;
        assert_eq!(refused.code, Code::DependencyAlreadyExists);
        assert_eq!(refused.code.class(), Class::Conflict);
        assert_eq!(refused.value, Some(edge.to_string()));
    }
    w.stage(flow, b, c).await.expect("another edge is another matter");
}

/// One edge id may be used in two flows.
pub async fn an_edge_id_belongs_to_its_flow(w: Arc<World>) {
    let first = w.empty_flow().await;
    let second = w.flow_beside(first).await;
    let edge = EdgeId(w.uuid());
    for flow in [first, second] {
        let [a, b] = w.members(flow).await;
        let staging = StageEdge { edge, ..w.staging(flow, a, b).await };
        assert!(w.run(staging).await.is_ok());
    }
}

/// Both ends of an edge are members of its flow.
pub async fn an_edge_joins_members_only(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let other = w.flow_beside(flow).await;
    let [a] = w.members(flow).await;
    let nobody = ExecutionId::for_flow(flow, w.uuid());
    let strangers = [nobody, w.candidate(flow).await, w.member(other).await];
    for stranger in strangers {
        for (from, to) in [(a, stranger), (stranger, a)] {
            let refused = w.refused(w.staging(flow, from, to).await).await;
            assert_eq!(refused.code, Code::ExecutionNotInFlow);
            assert_eq!(refused.value, Some(stranger.to_string()));
        }
    }
}

/// Membership and an edge in one batch: the edge finds the member.
pub async fn an_edge_finds_the_member_of_its_batch(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a] = w.members(flow).await;
    let b = w.candidate(flow).await;
    let staging = w.staging(flow, a, b).await;
    let staging = StageEdge { expected_revision: 2, ..staging };
    let batch = vec![AddMember { flow, execution: b }.into(), staging.into()];
    let outcomes = w.batch(batch).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// What has ended waits for nothing; others may wait for it.
pub async fn what_ended_may_be_waited_for_but_does_not_wait(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [done, next] = w.members(flow).await;
    w.succeed(done).await;
    let refused = w.refused(w.staging(flow, next, done).await).await;
    assert_eq!(refused.code, Code::ExecutionTerminal);
    assert!(w.stage(flow, done, next).await.is_ok());
}

/// Nothing is staged in a flow that is unknown, sealed or over.
pub async fn edges_are_staged_in_open_flows_only(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b] = w.members(flow).await;
    let gone = w.flow_id();
    assert_eq!(w.refused(w.staging(gone, a, b).await).await.code, Code::FlowNotFound);
    w.seal(flow).await.expect("it is open");
    assert_eq!(w.refused(w.staging(flow, a, b).await).await.code, Code::FlowSealed);
    w.cancel_flow(flow, CancellationPolicy::FlowOnly).await.expect("it is open");
    assert_eq!(w.refused(w.staging(flow, a, b).await).await.code, Code::FlowAlreadyTerminal);
}

/// The names of the edges into one execution tell them apart.
pub async fn two_edges_into_one_execution_have_two_names(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, c, d] = w.members(flow).await;
    let named =
        async |from, to| StageEdge { name: Some(left()), ..w.staging(flow, from, to).await };
    w.run(named(a, c).await).await.expect("the name is free");
    let refused = w.refused(named(b, c).await).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("edge_name")));
    w.run(named(b, d).await).await.expect("the name is free there");
    let mut link = Link::new(NodeRef::Execution(b), NodeRef::Execution(c));
    link.name = Some(left());
    let graph = Graph { links: vec![link], ..Graph::default() };
    let refused = w.refused(ExtendFlow { flow, graph, seal: false, by: None }).await;
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("edge_name")));
}

/// A reference says something, and not too much.
pub async fn a_bad_reference_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b] = w.members(flow).await;
    for text in [String::new(), "x".repeat(257), "nul\0".to_owned()] {
        let staging = StageEdge { data_passing_ref: Some(text), ..w.staging(flow, a, b).await };
        let refused = w.refused(staging).await;
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("data_passing_ref")));
    }
}
