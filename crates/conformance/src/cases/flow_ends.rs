//! How flows end: sealed, with all their members counted, once.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::backend::Interest;
use ff_core::decide::cancel_flow::CancelFlow;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::event::EventKind;
use ff_core::execution::CancelledBy;
use ff_core::flow::{CancellationPolicy, EdgeWord, Ended, FlowState, FlowWord, GroupWord};
use ff_core::state::PublicState;
use ff_core::view::{EdgeGroupSnapshot, EdgeSnapshot};

use super::calls::completion;
use crate::world::{World, any_of, namespace};

/// A sealed flow completes when the end of its last member is dispatched.
pub async fn a_sealed_flow_completes_with_its_last_member(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.pass(5);
    w.succeed(drawn.id("b")).await;
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Open);
    w.pass(5);
    w.dispatch().await;
    let flow = w.flow(drawn.flow).await;
    assert_eq!(flow.state, FlowState::Completed { at: w.now() });
    assert_eq!((flow.ended, flow.updated_at), (Ended { well: 2, badly: 0 }, w.now()));
    let events = w.flow_events(drawn.flow).await;
    let [ended] = events.as_slice() else { panic!("one event: {events:?}") };
    assert_eq!(ended.kind, EventKind::FlowEnded { state: FlowWord::Completed });
    assert_eq!((ended.execution, ended.flow), (None, Some(drawn.flow)));
    assert_eq!((&ended.namespace, &ended.lane), (&namespace("test"), &None));
    assert_eq!(ended.at, w.now());
}

/// One failed member fails its flow, once nothing is left to run.
pub async fn a_failed_member_fails_the_flow(w: Arc<World>) {
    let drawn = w.sketch("a>b c").submit().await;
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Open, "the other one goes on");
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    let flow = w.flow(drawn.flow).await;
    assert_eq!(flow.state, FlowState::Failed { at: w.now() });
    assert_eq!(flow.ended, Ended { well: 2, badly: 1 });
    let events = w.flow_events(drawn.flow).await;
    let kinds: Vec<_> = events.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::FlowEnded { state: FlowWord::Failed }]);
}

/// Expired, or cancelled by somebody, is not well.
pub async fn an_expired_or_cancelled_member_fails_the_flow(w: Arc<World>) {
    let cancelled = w.sketch("a").submit().await;
    w.cancel(cancelled.id("a")).await.expect("it waits");
    let expired = w.sketch("a").node("a", |create| create.deadline_at = Some(w.now()));
    let expired = expired.submit().await;
    w.tick(Duty::Deadline).await;
    w.dispatch().await;
    for drawn in [cancelled, expired] {
        assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Failed);
    }
}

/// What the engine cancelled because nobody needed it does not fail the flow.
pub async fn a_straggler_that_nobody_needed_does_not_fail_the_flow(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_of()).submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    let seen = w.snapshot(drawn.id("b")).await;
    let cancelled = (PublicState::Cancelled, Some(CancelledBy::Engine));
    assert_eq!((seen.public_state, seen.cancelled_by), cancelled);
    w.succeed(drawn.id("z")).await;
    w.dispatch().await;
    let flow = w.flow(drawn.flow).await;
    assert_eq!((flow.state.word(), flow.ended), (FlowWord::Completed, Ended { well: 3, badly: 0 }));
}

/// A flow that is cancelled with all its members says that it ended in the commit that ends them.
pub async fn a_flow_cancelled_with_all_members_ends_at_once(w: Arc<World>) {
    let drawn = w.sketch("a>b c").submit().await;
    w.start(drawn.id("c")).await;
    w.succeed(drawn.id("a")).await;
    let cancel = |policy| CancelFlow { flow: drawn.flow, policy, reason: String::new() };
    w.run(cancel(CancellationPolicy::All)).await.expect("it is open");
    let own = ff_core::ExecutionId::for_flow(drawn.flow, drawn.flow.0);
    let told = w.told(drawn.flow).await;
    assert_eq!(told.last(), Some(&(own, "flow_ended")), "{told:?}");
    let events = w.flow_events(drawn.flow).await;
    let state = FlowWord::Cancelled;
    assert_eq!(events.last().map(|event| &event.kind), Some(&EventKind::FlowEnded { state }));
    w.dispatch().await;
    assert_eq!(w.flow_event_names(drawn.flow).await, ["flow_cancel_requested", "flow_ended"]);
}

/// A cancelled flow of which members go on ends with the last of them.
pub async fn a_cancelled_flow_ends_with_its_last_member(w: Arc<World>) {
    for policy in [CancellationPolicy::Pending, CancellationPolicy::FlowOnly] {
        let drawn = w.sketch("a b c").submit().await;
        let (flow, [a, b, c]) = (drawn.flow, drawn.ids(["a", "b", "c"]));
        w.succeed(c).await;
        let fence = w.start(a).await;
        let alone = policy == CancellationPolicy::Pending;
        let other = if alone { None } else { Some(w.start(b).await) };
        w.cancel_flow(flow, policy).await.expect("it is open");
        w.dispatch().await;
        assert_eq!(w.flow_event_names(flow).await, ["flow_cancel_requested"], "{policy}");
        if let Some(fence) = other {
            w.complete(b, fence).await.expect("it is held");
        }
        w.dispatch().await;
        let dispatch = DispatchCompletion { flow, execution: a, eager: true };
        let outcomes = w.batch(vec![completion(a, fence, b"out").into(), dispatch.into()]).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let events = w.flow_events(flow).await;
        let kinds: Vec<_> = events[1..].iter().map(|event| &event.kind).collect();
        assert_eq!(kinds, [&EventKind::FlowEnded { state: FlowWord::Cancelled }], "{policy}");
    }
}

/// A cancellation that ends the last member says so itself: nothing is left to dispatch, and what was
/// not decided never will be.
pub async fn a_cancellation_that_ends_the_last_member_ends_the_flow(w: Arc<World>) {
    let drawn = w.sketch("a>b>c d").submit().await;
    let (flow, id) = (drawn.flow, |node| drawn.id(node));
    w.succeed(id("d")).await;
    w.dispatch().await;
    w.cancel_flow(flow, CancellationPolicy::Pending).await.expect("it is open");
    let own = ff_core::ExecutionId::for_flow(flow, flow.0);
    let told = w.told(flow).await;
    assert_eq!(told.last(), Some(&(own, "flow_ended")), "{told:?}");
    let ends = ["flow_cancel_requested", "flow_ended"];
    assert_eq!(w.flow_event_names(flow).await, ends);
    let row = w.flow(flow).await;
    assert_eq!(row.ended, Ended { well: 1, badly: 3 });
    for (from, to) in [(id("a"), id("b")), (id("b"), id("c"))] {
        let edge = EdgeSnapshot::of(&w.edge(flow, from, to).await, &row);
        assert_eq!((edge.edge_state, edge.resolved_at), (EdgeWord::Impossible, Some(w.now())));
        let group = EdgeGroupSnapshot::of(&w.group(flow, to).await, &row);
        assert_eq!(group.group_state, GroupWord::Cancelled);
    }
    assert!(w.dispatch().await.is_empty(), "all are counted");
    assert!(w.due(Duty::DependencyReconciler, 10).await.commands.is_empty());
    let again = w.cancel_flow(flow, CancellationPolicy::Pending).await.expect("it says so");
    assert!(again.repeated);
    assert_eq!(w.flow_event_names(flow).await, ends);
}

/// A stronger cancellation that ends the last member says so itself too.
pub async fn a_stronger_cancellation_that_ends_the_last_member_ends_the_flow(w: Arc<World>) {
    let drawn = w.sketch("a>b c").submit().await;
    let flow = drawn.flow;
    w.cancel_flow(flow, CancellationPolicy::FlowOnly).await.expect("it is open");
    w.cancel_flow(flow, CancellationPolicy::Pending).await.expect("it asks for more");
    let requested = "flow_cancel_requested";
    assert_eq!(w.flow_event_names(flow).await, [requested, requested, "flow_ended"]);
    assert!(w.dispatch().await.is_empty(), "all are counted");
}

/// A member that ended before, and is still to be counted, is counted when it is dispatched: that ends
/// the flow, though the cancellation ended all others.
pub async fn an_end_before_the_cancellation_ends_the_flow_when_it_is_counted(w: Arc<World>) {
    for policy in [CancellationPolicy::Pending, CancellationPolicy::FlowOnly] {
        let drawn = w.sketch(if policy == CancellationPolicy::Pending { "a b>c" } else { "a" });
        let drawn = drawn.submit().await;
        w.succeed(drawn.id("a")).await;
        w.cancel_flow(drawn.flow, policy).await.expect("it is open");
        assert_eq!(w.flow_event_names(drawn.flow).await, ["flow_cancel_requested"], "{policy}");
        w.dispatch().await;
        let told = w.flow_event_names(drawn.flow).await;
        assert_eq!(told, ["flow_cancel_requested", "flow_ended"], "{policy}");
        assert_eq!(w.flow(drawn.flow).await.ended.well, 1);
    }
}

/// As long as more may come, a flow goes on, however idle.
pub async fn an_open_flow_does_not_end(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Open);
    assert!(w.flow_events(drawn.flow).await.is_empty());
    w.pass(5);
    assert_eq!(w.seal(drawn.flow).await, Ok(FlowWord::Completed));
    let flow = w.flow(drawn.flow).await;
    assert_eq!(flow.state, FlowState::Completed { at: w.now() });
    assert_eq!(w.flow_event_names(drawn.flow).await, ["flow_ended"]);
}

/// Sealing a flow whose last end is not dispatched leaves the end to the dispatcher.
pub async fn sealing_waits_for_the_dispatch(w: Arc<World>) {
    let drawn = w.sketch("a").open().submit().await;
    w.fail_for_good(drawn.id("a")).await;
    assert_eq!(w.seal(drawn.flow).await, Ok(FlowWord::Open));
    w.dispatch().await;
    assert_eq!(w.flow_state(drawn.flow).await, FlowWord::Failed);
    assert_eq!(w.flow_event_names(drawn.flow).await, ["flow_ended"]);
}

/// The last ends, dispatched together, end the flow once.
pub async fn the_last_ends_of_one_batch_end_the_flow_once(w: Arc<World>) {
    let drawn = w.sketch("a b c").submit().await;
    for id in drawn.ids(["a", "b", "c"]) {
        w.succeed(id).await;
    }
    let commands = w.due(Duty::CompletionDispatch, 10).await.commands;
    let version = w.flow(drawn.flow).await.version;
    let outcomes = w.batch(commands.iter().chain(&commands).cloned().collect()).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let flow = w.flow(drawn.flow).await;
    assert_eq!(flow.state.word(), FlowWord::Completed);
    assert!(flow.version > version);
    assert_eq!(w.flow_event_names(drawn.flow).await, ["flow_ended"]);
}

/// The history of a flow reads in the order in which it came about.
pub async fn a_flow_tells_its_story_in_order(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.fail_for_good(a).await;
    w.dispatch().await;
    let own = ff_core::ExecutionId::for_flow(drawn.flow, drawn.flow.0);
    let expected = [(a, "completion"), (b, "completion"), (own, "flow_ended")];
    assert_eq!(w.told(drawn.flow).await, expected);
}

/// Who waits for a flow to end is woken when one does, and not by less.
pub async fn the_end_of_a_flow_wakes_who_waits_for_it(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let backend = &w.store.backend;
    let seen = backend.generation(Interest::Ends);
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(backend.generation(Interest::Ends), seen, "it goes on");
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    w.woken(Interest::Ends, seen).await;
    assert_ne!(backend.generation(Interest::Ends), seen);
}
