//! Applying edges and choosing what they add up to: what holds an execution back, and what does not.

use std::sync::Arc;

use ff_core::command::Reply;
use ff_core::decide::apply_edge::{Applied, ApplyEdge};
use ff_core::decide::dispatch::Dispatched;
use ff_core::decide::group_policy::{PolicySet, SetGroupPolicy};
use ff_core::decide::stage_edge::StageEdge;
use ff_core::error::{Class, Code};
use ff_core::flow::{
    CancellationPolicy, DependencyKind, EdgePolicy, EdgeState, FlowWord, GroupState,
};
use ff_core::state::{
    AttemptState, BlockingReason, EligibilityState, OwnershipState, Phase, PublicState, StateVector,
};
use ff_core::{EdgeId, ExecutionId};

use crate::world::{World, any_let_run, any_of, code, quorum, quorum_let_run};

/// An applied edge keeps its downstream from every worker.
pub async fn an_applied_edge_gates_its_child(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    let edge = w.stage(flow, up, down).await.expect("the edge is valid").edge_id;
    let revision = w.flow(flow).await.revision;
    assert_eq!(w.apply(flow, edge).await, Ok(Applied::Applied { unsatisfied_count: 1 }));
    let expected = StateVector {
        lifecycle_phase: Phase::Runnable,
        ownership_state: OwnershipState::Unowned,
        eligibility_state: EligibilityState::BlockedByDependencies,
        blocking_reason: BlockingReason::WaitingForChildren,
        terminal_outcome: None,
        attempt_state: AttemptState::PendingFirstAttempt,
        public_state: PublicState::WaitingChildren,
        blocking_detail: Some("waits for others in its flow".to_owned()),
    };
    assert_eq!(w.vector(down).await, expected);
    assert_eq!(w.take_ids(10).await, [up]);
    assert_eq!(code(w.claim_by_name(down).await), Code::ExecutionNotLeaseable);
    let state = w.edge(flow, up, down).await.state;
    assert_eq!(state, EdgeState::Unsatisfied { applied_at: w.now() });
    assert_eq!(w.counted(flow, down).await, [1, 0, 0, 0]);
    assert_eq!(w.flow(flow).await.revision, revision, "applying is no change of the graph");
}

/// The success of what it waits for lets it go, once its flow was told.
pub async fn success_lets_the_child_go(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    w.link(flow, up, down).await;
    w.pass(5);
    w.succeed(up).await;
    assert_eq!(w.state(down).await, PublicState::WaitingChildren);
    assert_eq!(w.dispatch().await, [Ok(Reply::DispatchCompletion(Dispatched::Advanced(1)))]);
    assert_eq!(w.state(down).await, PublicState::Waiting);
    assert_eq!(w.counted(flow, down).await, [1, 1, 0, 0]);
    assert_eq!(w.group(flow, down).await.state, GroupState::Satisfied { at: w.now() });
    let state = w.edge(flow, up, down).await.state;
    assert_eq!(state.times(), (Some(w.now().minus(5)), Some(w.now())));
    w.take(down).await;
}

/// An edge from what has succeeded already holds nothing back, told or not.
pub async fn applying_after_success_lets_the_child_go_at_once(w: Arc<World>) {
    for told in [true, false] {
        let flow = w.empty_flow().await;
        let [up, down] = w.members(flow).await;
        let edge = w.stage(flow, up, down).await.expect("the edge is valid").edge_id;
        w.succeed(up).await;
        if told {
            w.dispatch().await;
        }
        assert_eq!(w.apply(flow, edge).await, Ok(Applied::Applied { unsatisfied_count: 0 }));
        assert_eq!(w.counted(flow, down).await, [1, 1, 0, 0]);
        w.take(down).await;
        w.dispatch().await;
        assert_eq!(w.counted(flow, down).await, [1, 1, 0, 0], "it is counted once");
    }
}

/// An edge from what has failed already ends its downstream, and what waits for that, too.
pub async fn applying_after_failure_skips_the_child_at_once(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down, next] = w.members(flow).await;
    w.link(flow, down, next).await;
    let edge = w.stage(flow, up, down).await.expect("the edge is valid").edge_id;
    w.fail_for_good(up).await;
    w.dispatch().await;
    assert_eq!(w.apply(flow, edge).await, Ok(Applied::Applied { unsatisfied_count: 0 }));
    assert_eq!(w.state(down).await, PublicState::Skipped);
    assert_eq!(w.event_names(down).await, ["completion"]);
    assert_eq!(w.state(next).await, PublicState::WaitingChildren);
    w.dispatch().await;
    assert_eq!(w.state(next).await, PublicState::Skipped);
}

/// Applying twice counts once.
pub async fn an_edge_is_applied_once(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    let edge = w.link(flow, up, down).await;
    w.pass(5);
    let before = w.rows();
    assert_eq!(w.apply(flow, edge).await, Ok(Applied::AlreadyApplied));
    assert_eq!(w.rows(), before);
    w.succeed(up).await;
    w.dispatch().await;
    assert_eq!(w.apply(flow, edge).await, Ok(Applied::AlreadyApplied));
    assert_eq!(w.state(down).await, PublicState::Waiting);
}

/// What is stored counts: a caller who believes something else is told.
pub async fn applying_with_other_ends_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down, other] = w.members(flow).await;
    let edge = w.stage(flow, up, down).await.expect("the edge is valid").edge_id;
    let right = ApplyEdge { flow, edge, upstream: Some(up), downstream: Some(down) };
    let wrong = [
        (ApplyEdge { upstream: Some(other), ..right }, "upstream_execution_id"),
        (ApplyEdge { downstream: Some(other), ..right }, "downstream_execution_id"),
    ];
    for (apply, field) in wrong {
        let refused = w.refused(apply).await;
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some(field)));
    }
    assert_eq!(w.run(right).await, Ok(Applied::Applied { unsatisfied_count: 1 }));
    for (apply, _) in wrong {
        assert_eq!(w.refused(apply).await.code, Code::InvalidInput);
    }
}

/// An edge that nobody staged is not applied, nor one of another flow.
pub async fn an_unknown_edge_is_not_applied(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let other = w.flow_beside(flow).await;
    let [up, down] = w.members(other).await;
    let elsewhere = w.stage(other, up, down).await.expect("the edge is valid").edge_id;
    for edge in [EdgeId(w.uuid()), elsewhere] {
        assert_eq!(code(w.apply(flow, edge).await), Code::EdgeNotFound);
    }
    assert_eq!(code(w.apply(w.flow_id(), elsewhere).await), Code::FlowNotFound);
}

/// What was let go is not held back again.
pub async fn a_group_that_fired_takes_no_more_edges(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, c, down] = w.members(flow).await;
    w.link(flow, a, down).await;
    let staged = w.stage(flow, b, down).await.expect("the group is open").edge_id;
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(down).await, PublicState::Waiting);
    let before = w.rows();
    let refused = w.apply(flow, staged).await.expect_err("it fired");
    assert_eq!((refused.code, refused.code.class()), (Code::GroupAlreadyFired, Class::State));
    assert_eq!(w.rows(), before);
    assert_eq!(w.refused(w.staging(flow, c, down).await).await.code, Code::GroupAlreadyFired);
    w.take_ids(10).await;
    assert_eq!(w.state(down).await, PublicState::Active);
}

/// An edge staged before its downstream ended is never applied.
pub async fn a_finished_child_takes_no_edges(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    let edge = w.stage(flow, up, down).await.expect("the edge is valid").edge_id;
    w.succeed(down).await;
    let apply = ApplyEdge { flow, edge, upstream: None, downstream: None };
    assert_eq!(w.refused(apply).await.code, Code::ExecutionTerminal);
}

/// A running child is not stopped by an edge; it counts when the child next waits.
pub async fn a_running_child_is_not_stopped_by_an_edge(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    let fence = w.start(down).await;
    w.link(flow, up, down).await;
    assert_eq!(w.state(down).await, PublicState::Active);
    assert!(w.renew(down, fence).await.is_ok());
    assert_eq!(w.complete(down, fence).await, Ok(()));
    w.succeed(up).await;
    w.dispatch().await;
    assert_eq!(w.state(down).await, PublicState::Completed);
    assert_eq!(w.counted(flow, down).await, [1, 1, 0, 0]);
}

/// A sealed flow still applies what was staged; one that is over does not.
pub async fn sealing_does_not_keep_staged_edges_from_being_applied(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, c] = w.members(flow).await;
    let first = w.stage(flow, a, b).await.expect("the edge is valid").edge_id;
    let second = w.stage(flow, b, c).await.expect("the edge is valid").edge_id;
    assert_eq!(w.seal(flow).await, Ok(FlowWord::Open));
    assert!(w.apply(flow, first).await.is_ok());
    w.cancel_flow(flow, CancellationPolicy::FlowOnly).await.expect("it is open");
    assert_eq!(code(w.apply(flow, second).await), Code::FlowAlreadyTerminal);
    assert_eq!(w.apply(flow, first).await, Ok(Applied::AlreadyApplied));
}

/// Staged, applied and completed in one batch: every command sees those before it.
pub async fn an_edge_lives_its_whole_life_in_one_batch(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    let fence = w.start(up).await;
    let staging =
        StageEdge { kind: DependencyKind::SuccessOnly, ..w.staging(flow, up, down).await };
    let apply = ApplyEdge { flow, edge: staging.edge, upstream: None, downstream: None };
    let complete = super::calls::completion(up, fence, b"done");
    let dispatch =
        ff_core::decide::dispatch::DispatchCompletion { flow, execution: up, eager: false };
    let batch = vec![staging.into(), apply.into(), complete.into(), dispatch.into()];
    let outcomes = w.batch(batch).await;
    assert_eq!(outcomes[3], Ok(Reply::DispatchCompletion(Dispatched::Advanced(1))));
    assert_eq!(w.state(down).await, PublicState::Waiting);
    assert!(w.dispatch().await.is_empty());
}

/// A rule is set, restated and changed as long as nothing was staged under it.
pub async fn a_policy_may_change_until_an_edge_is_staged(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    let revision = w.flow(flow).await.revision;
    for policy in [quorum(2), quorum(1), quorum_let_run(1), any_of(), EdgePolicy::AllOf, any_of()] {
        w.pass(5);
        assert_eq!(w.wait_for(flow, down, policy).await, Ok(PolicySet::Set));
        let group = w.group(flow, down).await;
        assert_eq!((group.policy, group.state), (policy, GroupState::Pending));
        assert_eq!(w.counted(flow, down).await, [0; 4]);
        let before = w.rows();
        assert_eq!(w.wait_for(flow, down, policy).await, Ok(PolicySet::AlreadySet));
        assert_eq!(w.rows(), before);
    }
    assert_eq!(w.flow(flow).await.revision, revision, "a rule is no change of the graph");
    w.stage(flow, up, down).await.expect("the edge is valid");
    for policy in [any_of(), any_let_run()] {
        let refused =
            w.refused(SetGroupPolicy { flow, downstream: down, policy, version: None }).await;
        assert_eq!((refused.code, refused.code.class()), (Code::InvalidInput, Class::Validation));
        assert!(refused.message.contains("edge_group_policy_already_fixed"), "{refused}");
    }
    assert_eq!(w.state(down).await, PublicState::Waiting);
}

/// A group nobody chose a rule for waits for all of its edges.
pub async fn without_a_policy_all_edges_count(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, down] = w.members(flow).await;
    w.link(flow, a, down).await;
    w.link(flow, b, down).await;
    assert_eq!(w.group(flow, down).await.policy, EdgePolicy::AllOf);
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(down).await, PublicState::WaitingChildren);
    w.succeed(b).await;
    w.dispatch().await;
    assert_eq!(w.state(down).await, PublicState::Waiting);
}

/// A quorum asks for something, and not for absurdly much.
pub async fn an_absurd_quorum_is_refused(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [downstream] = w.members(flow).await;
    for k in [0, u32::MAX] {
        let refused =
            w.refused(SetGroupPolicy { flow, downstream, policy: quorum(k), version: None }).await;
        assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("k")));
    }
    assert_eq!(w.find_group(flow, downstream).await, None);
}

/// A rule is set for members that have not ended, in flows that still grow.
pub async fn a_policy_is_set_for_open_members_only(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [waits, done] = w.members(flow).await;
    w.succeed(done).await;
    let stranger = w.candidate(flow).await;
    let nobody = ExecutionId::for_flow(flow, w.uuid());
    let ask =
        |flow, downstream| SetGroupPolicy { flow, downstream, policy: any_of(), version: None };
    assert_eq!(w.refused(ask(flow, stranger)).await.code, Code::ExecutionNotInFlow);
    assert_eq!(w.refused(ask(flow, nobody)).await.code, Code::ExecutionNotInFlow);
    assert_eq!(w.refused(ask(flow, done)).await.code, Code::ExecutionTerminal);
    assert_eq!(w.refused(ask(w.flow_id(), waits)).await.code, Code::FlowNotFound);
    w.seal(flow).await.expect("it is open");
    assert_eq!(w.refused(ask(flow, waits)).await.code, Code::FlowSealed);
    w.cancel_flow(flow, CancellationPolicy::FlowOnly).await.expect("it is open");
    assert_eq!(w.refused(ask(flow, waits)).await.code, Code::FlowAlreadyTerminal);
}

/// Whoever seals a flow learns that a quorum asks for more edges than there are.
pub async fn a_flow_is_not_sealed_over_a_quorum_out_of_reach(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b, down] = w.members(flow).await;
    w.wait_for(flow, down, quorum(2)).await.expect("nothing is staged");
    w.link(flow, a, down).await;
    let refused = w.refused(ff_core::decide::seal_flow::SealFlow { flow }).await;
    assert_eq!((refused.code, refused.value), (Code::QuorumTooLarge, Some("2".to_owned())));
    w.link(flow, b, down).await;
    assert_eq!(w.seal(flow).await, Ok(FlowWord::Open));
}
