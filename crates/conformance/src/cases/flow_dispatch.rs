//! Dispatch: a member ends, its flow learns of it, and what waited goes on or is skipped.
#![allow(clippy::many_single_char_names, reason = "nodes of a sketch are called a, b, c")]

use std::sync::Arc;

use ff_core::backend::{Duty, Interest, WorkFilter};
use ff_core::command::{Command, Reply};
use ff_core::decide::create::Create;
use ff_core::decide::dispatch::{DispatchCompletion, Dispatched};
use ff_core::decide::reconcile_group::ReconcileGroup;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::flow::{Ended, GroupState};
use ff_core::state::{AttemptState, PublicState, TerminalOutcome};
use ff_core::{ExecutionId, FlowId};
use serde_json::json;

use super::calls::{retrying, tags, worker_calls};
use crate::world::{World, code, namespace};

const ADVANCED_ONE: Reply = Reply::DispatchCompletion(Dispatched::Advanced(1));

fn dispatching(flow: FlowId, execution: ExecutionId) -> Command {
    DispatchCompletion { flow, execution, eager: false }.into()
}

/// A failure travels one hop at a time, and each that is skipped says so once.
pub async fn a_failure_skips_what_waits_hop_by_hop(w: Arc<World>) {
    let drawn = w.sketch("a>b>c d").submit().await;
    let [a, b, c, d] = drawn.ids(["a", "b", "c", "d"]);
    w.fail_for_good(a).await;
    let mut states = Vec::new();
    for _ in 0..3 {
        assert_eq!(w.tick(Duty::CompletionDispatch).await.len(), 1);
        states.push((w.state(b).await, w.state(c).await));
    }
    let (waits, skipped) = (PublicState::WaitingChildren, PublicState::Skipped);
    assert_eq!(states, [(skipped, waits), (skipped, skipped), (skipped, skipped)]);
    for id in [b, c] {
        let completion = EventKind::Completion {
            outcome: TerminalOutcome::Skipped,
            attempt_index: None,
            reason: Some("dependency_impossible".to_owned()),
        };
        let events = w.events(id).await;
        assert_eq!(events.into_iter().map(|e| e.kind).collect::<Vec<_>>(), [completion]);
        assert_eq!(w.vector(id).await.attempt_state, AttemptState::None);
        let seen = w.snapshot(id).await;
        assert_eq!(seen.ended_because.as_deref(), Some("dependency_impossible"));
    }
    assert_eq!(w.counted(drawn.flow, b).await, [1, 0, 1, 0]);
    assert_eq!(w.counted(drawn.flow, c).await, [1, 0, 0, 1], "a skip is not a failure");
    assert!(w.dispatch().await.is_empty());
    assert_eq!(w.state(d).await, PublicState::Waiting);
}

/// A long chain of skips ends, one dispatch for each.
pub async fn a_skip_travels_to_the_end_of_a_chain(w: Arc<World>) {
    let names: Vec<_> = (0..40).map(|n| format!("n{n}")).collect();
    let drawn = w.sketch(&names.join(">")).submit().await;
    w.fail_for_good(drawn.id("n0")).await;
    assert_eq!(w.dispatch().await.len(), 40);
    assert_eq!(w.buckets(drawn.flow).await.of(PublicState::Skipped), 39);
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 39, badly: 1 });
}

/// A running child loses its lease, and its worker is told at the next call.
pub async fn a_running_child_is_skipped_and_fenced(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    let fence = w.start(down).await;
    w.link(flow, up, down).await;
    w.fail_for_good(up).await;
    w.dispatch().await;
    assert_eq!(w.state(down).await, PublicState::Skipped);
    assert_eq!(w.vector(down).await.attempt_state, AttemptState::AttemptTerminal);
    assert_eq!(w.get(down).await.epoch, fence.lease_epoch + 1);
    assert_eq!(w.event_names(down).await, ["lease_revoked", "completion"]);
    for call in worker_calls(down, fence) {
        let name = call.name();
        let refused = w.send(call).await.expect_err("it was taken away");
        assert_eq!(refused.code, Code::ExecutionNotActive, "{name}");
        let outcome = refused.standing.and_then(|standing| standing.outcome);
        assert_eq!(outcome, Some(TerminalOutcome::Skipped), "{name}");
    }
}

/// A child that is done is not undone.
pub async fn a_finished_child_is_left_alone(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [up, down] = w.members(flow).await;
    let fence = w.start(down).await;
    w.link(flow, up, down).await;
    w.complete(down, fence).await.expect("it is held");
    w.fail_for_good(up).await;
    w.dispatch().await;
    assert_eq!(w.state(down).await, PublicState::Completed);
    assert_eq!(w.event_names(down).await, ["completion"]);
    assert!(matches!(w.group(flow, down).await.state, GroupState::Impossible { .. }));
}

/// However often it is dispatched, an end counts once.
pub async fn a_dispatch_counts_once(w: Arc<World>) {
    let drawn = w.sketch("a>c b>c").submit().await;
    let [a, c] = drawn.ids(["a", "c"]);
    w.succeed(a).await;
    let command = dispatching(drawn.flow, a);
    let outcomes = w.batch(vec![command.clone(), command.clone()]).await;
    assert_eq!(outcomes, [Ok(ADVANCED_ONE), Ok(Reply::DispatchCompletion(Dispatched::NoOp))]);
    let before = w.rows();
    assert_eq!(w.send(command).await, Ok(Reply::DispatchCompletion(Dispatched::NoOp)));
    assert_eq!(w.rows(), before);
    assert_eq!(w.counted(drawn.flow, c).await, [2, 1, 0, 0]);
    assert_eq!(w.flow(drawn.flow).await.ended.total(), 1);
}

/// There is nothing to dispatch of what has not ended, is unknown, or is in no flow.
pub async fn a_dispatch_of_nothing_does_nothing(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let solo = w.create(w.draft()).await;
    w.succeed(solo).await;
    let before = w.rows();
    for id in [drawn.id("a"), drawn.id("nobody"), solo] {
        let answer = w.send(dispatching(drawn.flow, id)).await;
        assert_eq!(answer, Ok(Reply::DispatchCompletion(Dispatched::NoOp)));
    }
    assert!(w.due(Duty::CompletionDispatch, 10).await.commands.is_empty());
    assert_eq!(w.rows(), before);
    w.succeed(drawn.id("a")).await;
    let before = w.rows();
    let elsewhere = w.send(dispatching(w.flow_id(), drawn.id("a"))).await;
    assert_eq!(elsewhere, Ok(Reply::DispatchCompletion(Dispatched::NoOp)));
    assert_eq!(w.rows(), before, "it is still to be told to its own flow");
}

/// A retry is not an end; only the last attempt is dispatched.
pub async fn only_the_end_is_dispatched(w: Arc<World>) {
    let drawn = w.sketch("a>b").policy(&retrying(1, 0)).submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    let fence = w.start(a).await;
    w.fail(a, fence).await.expect("it is held");
    assert!(w.dispatch().await.is_empty());
    w.succeed(a).await;
    assert_eq!(w.dispatch().await.len(), 1);
    assert_eq!(w.state(b).await, PublicState::Waiting);
}

/// The ends of 64 upstreams, told in one batch, let their child go once.
pub async fn many_ends_in_one_batch_fire_once(w: Arc<World>) {
    let names: Vec<_> = (0..64).map(|n| format!("n{n}")).collect();
    let sketch = names.iter().map(|name| format!("{name}>z")).collect::<Vec<_>>().join(" ");
    let drawn = w.sketch(&sketch).submit().await;
    let z = drawn.id("z");
    for name in &names {
        w.succeed(drawn.id(name)).await;
    }
    let commands = w.due(Duty::CompletionDispatch, 100).await.commands;
    assert_eq!(commands.len(), 64);
    let version = w.get(z).await.version;
    let outcomes = w.batch(commands).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(ADVANCED_ONE)), "{outcomes:?}");
    assert_eq!(w.counted(drawn.flow, z).await, [64, 64, 0, 0]);
    assert_eq!(w.get(z).await.version, version + 1);
    w.take(z).await;
}

/// The ends of 16 upstreams, told by as many processes at once, let their child go once.
pub async fn many_ends_at_the_same_time_fire_once(w: Arc<World>) {
    let sketch = (0..16).map(|n| format!("n{n}>z")).collect::<Vec<_>>().join(" ");
    let drawn = w.sketch(&sketch).submit().await;
    let z = drawn.id("z");
    for n in 0..16 {
        w.succeed(drawn.id(&format!("n{n}"))).await;
    }
    let commands = w.due(Duty::CompletionDispatch, 100).await.commands;
    let mut calls = tokio::task::JoinSet::new();
    for command in commands.into_iter().flat_map(|command| [command.clone(), command]) {
        let w = Arc::clone(&w);
        calls.spawn(async move { w.batch(vec![command]).await.remove(0) });
    }
    let outcomes = calls.join_all().await;
    let advanced = outcomes.iter().filter(|outcome| **outcome == Ok(ADVANCED_ONE)).count();
    assert_eq!(advanced, 16, "{outcomes:?}");
    assert_eq!(w.counted(drawn.flow, z).await, [16, 16, 0, 0]);
    assert_eq!(w.take_ids(10).await, [z]);
}

/// One end may let several go, each for itself.
pub async fn one_end_lets_several_go(w: Arc<World>) {
    let drawn = w.sketch("a>b a>c a>d e>d").submit().await;
    w.succeed(drawn.id("a")).await;
    let advanced = Reply::DispatchCompletion(Dispatched::Advanced(3));
    assert_eq!(w.dispatch().await, [Ok(advanced)]);
    let mut states = Vec::new();
    for id in drawn.ids(["b", "c", "d"]) {
        states.push(w.state(id).await);
    }
    let expected = [PublicState::Waiting, PublicState::Waiting, PublicState::WaitingChildren];
    assert_eq!(states, expected);
}

/// However an upstream ends, its children learn of it.
pub async fn every_ending_propagates(w: Arc<World>) {
    let drawn = w.sketch("a>b c>d e>f").submit().await;
    w.cancel(drawn.id("a")).await.expect("it waits");
    let fence = w.start(drawn.id("c")).await;
    let cancel = super::calls::cancellation(drawn.id("c"));
    let cancel = ff_core::decide::cancel::Cancel { fence: Some(fence), ..cancel };
    w.run(cancel).await.expect("it is held");
    w.succeed(drawn.id("e")).await;
    let late =
        w.sketch("g>h").node("g", |create| create.deadline_at = Some(w.now())).submit().await;
    w.tick(Duty::Deadline).await;
    assert_eq!(w.state(late.id("g")).await, PublicState::Expired);
    w.dispatch().await;
    for id in [drawn.id("b"), drawn.id("d"), late.id("h")] {
        assert_eq!(w.state(id).await, PublicState::Skipped);
    }
    assert_eq!(w.state(drawn.id("f")).await, PublicState::Waiting);
    assert_eq!(w.counted(drawn.flow, drawn.id("b")).await, [1, 0, 1, 0]);
}

/// What is let go still waits for its own time.
pub async fn a_delayed_child_stays_delayed(w: Arc<World>) {
    let later = w.now().plus(1_000);
    let sketch = w.sketch("a>b").node("b", |create| create.delay_until = Some(later));
    let drawn = sketch.submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    assert_eq!(w.state(b).await, PublicState::WaitingChildren);
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.state(b).await, PublicState::Delayed);
    assert!(w.claim_one().await.is_none());
    w.pass(1_000);
    w.take(b).await;
}

/// A delay that is over before the group fires costs nothing more.
pub async fn a_delay_may_run_out_while_the_child_waits(w: Arc<World>) {
    let later = w.now().plus(1_000);
    let sketch = w.sketch("a>b").node("b", |create| create.delay_until = Some(later));
    let drawn = sketch.submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.pass(2_000);
    assert_eq!(w.promote().await, None);
    assert_eq!(w.take_ids(10).await, [a]);
    let fence = w.active(a).await.lease;
    assert_eq!(fence.acquired_at, w.now());
    w.cancel(a).await.expect("it runs");
    w.dispatch().await;
    assert_eq!(w.state(b).await, PublicState::Skipped);
    let second = w.sketch("a>b").node("b", |create| create.delay_ms = Some(10)).submit().await;
    w.pass(10);
    w.succeed(second.id("a")).await;
    w.dispatch().await;
    w.take(second.id("b")).await;
}

/// What an operator holds stays held.
pub async fn a_held_child_stays_held(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.hold(b).await.expect("it waits");
    assert_eq!(w.state(b).await, PublicState::WaitingChildren);
    w.succeed(a).await;
    w.dispatch().await;
    assert!(w.claim_one().await.is_none());
    w.unhold(b).await.expect("it is held");
    w.take(b).await;
}

/// Letting go of a hold does not open what others hold back.
pub async fn unholding_does_not_ungate(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.hold(b).await.expect("it waits");
    w.unhold(b).await.expect("it is held");
    assert_eq!(w.take_ids(10).await, [a]);
    assert_eq!(code(w.claim_by_name(b).await), Code::ExecutionNotLeaseable);
}

/// What waits for others may expire or be cancelled like anything else.
pub async fn a_waiting_child_may_end_by_itself(w: Arc<World>) {
    let soon = w.now().plus(10);
    let sketch = w.sketch("a>b>c a>d").node("b", |create| create.deadline_at = Some(soon));
    let drawn = sketch.submit().await;
    w.pass(10);
    w.tick(Duty::Deadline).await;
    w.cancel(drawn.id("d")).await.expect("it waits");
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Expired);
    assert_eq!(w.state(drawn.id("c")).await, PublicState::Skipped);
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Expired);
    assert_eq!(w.state(drawn.id("d")).await, PublicState::Cancelled);
    assert_eq!(w.counted(drawn.flow, drawn.id("b")).await, [1, 1, 0, 0]);
}

/// The feed says of every end in a flow which flow it was.
pub async fn completions_carry_their_flow(w: Arc<World>) {
    let drawn = w.sketch("a>b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    w.fail_for_good(a).await;
    w.dispatch().await;
    for id in [a, b] {
        let events = w.events(id).await;
        let [event] = events.as_slice() else { panic!("one event: {events:?}") };
        assert_eq!((event.flow, event.execution), (Some(drawn.flow), Some(id)));
        assert_eq!(event.namespace, namespace("test"));
    }
    let solo = w.finished(json!({})).await;
    assert_eq!(w.events(solo).await[0].flow, None);
}

/// The oldest ends are told first, no more at a time than asked for.
pub async fn ends_are_dispatched_oldest_first(w: Arc<World>) {
    let drawn = w.sketch("a b c d").submit().await;
    let order = drawn.ids(["c", "a", "d", "b"]);
    for id in order {
        w.succeed(id).await;
        w.pass(10);
    }
    let due = w.due(Duty::CompletionDispatch, 3).await;
    let expected: Vec<_> = order[..3].iter().map(|id| dispatching(drawn.flow, *id)).collect();
    assert_eq!((due.commands, due.next), (expected, None));
    assert!(w.due(Duty::CompletionDispatch, 0).await.commands.is_empty());
}

/// A process that serves one tenant, or one tag, dispatches what is theirs.
pub async fn a_dispatcher_may_serve_some_members(w: Arc<World>) {
    let ours = w.sketch("a b").node("b", |create| create.tags = tags(&[("app.run", "1")]));
    let ours = ours.submit().await;
    let theirs = w.sketch("a").with(|submission| {
        submission.flow.namespace = namespace("other");
        submission.graph.nodes[0].create.namespace = namespace("other");
    });
    let theirs = theirs.submit().await;
    for id in [ours.id("a"), ours.id("b"), theirs.id("a")] {
        w.succeed(id).await;
    }
    let due = async |filter: WorkFilter| {
        let due = w.store.backend.due(Duty::CompletionDispatch, &filter, 10).await;
        due.expect("the store works").commands
    };
    let in_namespace = |name| WorkFilter { namespace: Some(namespace(name)), tag: None };
    assert_eq!(due(in_namespace("other")).await, [dispatching(theirs.flow, theirs.id("a"))]);
    assert_eq!(due(in_namespace("test")).await.len(), 2);
    let tag = Some(("app.run".to_owned(), "1".to_owned()));
    let tagged = WorkFilter { namespace: None, tag };
    assert_eq!(due(tagged.clone()).await, [dispatching(ours.flow, ours.id("b"))]);
    let both = WorkFilter { namespace: Some(namespace("other")), ..tagged };
    assert!(due(both).await.is_empty());
    assert_eq!(due(WorkFilter::default()).await.len(), 3);
}

/// Whoever dispatches is woken by the end of a member.
pub async fn the_end_of_a_member_wakes_the_dispatcher(w: Arc<World>) {
    let backend = Arc::clone(&w.store.backend);
    let drawn = w.sketch("a>b").submit().await;
    let fence = w.start(drawn.id("a")).await;
    let seen = backend.generation(Interest::Flows);
    w.complete(drawn.id("a"), fence).await.expect("it is held");
    w.woken(Interest::Flows, seen).await;
    assert_ne!(backend.generation(Interest::Flows), seen);
    let seen = backend.generation(Interest::Work);
    w.dispatch().await;
    w.woken(Interest::Work, seen).await;
}

/// An execution created for a flow and never added to it is nobody's member.
pub async fn an_outsider_in_the_partition_is_not_dispatched(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let id = ExecutionId::for_flow(flow, w.uuid());
    w.create(Create { id, ..w.draft() }).await;
    w.succeed(id).await;
    assert!(w.dispatch().await.is_empty());
    assert_eq!(w.flow(flow).await.ended, Ended::default());
}

/// The reconciler may be faster than the dispatcher; together they count once.
pub async fn a_group_may_be_reconciled_before_the_dispatch(w: Arc<World>) {
    let drawn = w.sketch("a>c b>c").submit().await;
    let (flow, c) = (drawn.flow, drawn.id("c"));
    w.succeed(drawn.id("a")).await;
    assert!(w.due(Duty::DependencyReconciler, 10).await.commands.is_empty(), "it will be told");
    assert_eq!(w.run(ReconcileGroup { flow, downstream: c }).await, Ok(1));
    assert_eq!(w.counted(flow, c).await, [2, 1, 0, 0]);
    let nothing = Reply::DispatchCompletion(Dispatched::Advanced(0));
    assert_eq!(w.dispatch().await, [Ok(nothing)]);
    assert_eq!(w.counted(flow, c).await, [2, 1, 0, 0]);
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.state(c).await, PublicState::Waiting);
    assert_eq!(w.run(ReconcileGroup { flow, downstream: c }).await, Ok(0));
    let nobody = drawn.id("nobody");
    assert_eq!(w.run(ReconcileGroup { flow, downstream: nobody }).await, Ok(0));
    assert_eq!(w.run(ReconcileGroup { flow: w.flow_id(), downstream: c }).await, Ok(0));
}
