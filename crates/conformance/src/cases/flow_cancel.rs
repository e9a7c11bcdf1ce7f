//! Cancelling flows: what ended stays, the rest goes as the policy says, and nothing comes after.
#![allow(clippy::many_single_char_names, reason = "nodes of a sketch are called a, b, c")]

use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::backend::Duty;
use ff_core::command::{Command, Reply};
use ff_core::decide::add_member::AddMember;
use ff_core::decide::cancel_flow::{CancelFlow, FlowCancelled};
use ff_core::decide::cancel_owed::{CancelOwed, OwedCancelled};
use ff_core::decide::group_policy::SetGroupPolicy;
use ff_core::decide::wait_children::Waiting;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::CancelledBy;
use ff_core::flow::{
    CancellationPolicy, DependencyKind, EdgePolicy, EdgeWord, Ended, FlowState, GroupWord, NodeRef,
};
use ff_core::state::{PublicState, TerminalOutcome};
use ff_core::view::{EdgeGroupSnapshot, EdgeSnapshot, FlowSnapshot};
use ff_core::{Fence, FlowId};
use serde_json::json;

use super::calls::{completion, worker_calls};
use crate::world::{Drawn, World, any_of, code};

const ALL: CancellationPolicy = CancellationPolicy::All;
const PENDING: CancellationPolicy = CancellationPolicy::Pending;
const FLOW_ONLY: CancellationPolicy = CancellationPolicy::FlowOnly;

/// A flow with a member in every state that matters, and the fence of the one that runs.
///
/// `done` completed, `failed` failed, `runs` is active and `next` waits for it, `waits` waits for a
/// worker, `late` for its time, `held` for an operator.
async fn busy(w: &World) -> (Drawn, Fence) {
    let sketch = w.sketch("done failed runs>next waits late held").open();
    let later = w.now().plus(60_000);
    let sketch = sketch.node("late", |create| create.delay_until = Some(later));
    let drawn = sketch.submit().await;
    w.succeed(drawn.id("done")).await;
    w.fail_for_good(drawn.id("failed")).await;
    w.dispatch().await;
    let fence = w.start(drawn.id("runs")).await;
    w.hold(drawn.id("held")).await.expect("it waits");
    w.pass(5);
    (drawn, fence)
}

async fn is_cancelled(w: &World, id: ExecutionId, reason: &str) {
    let seen = w.snapshot(id).await;
    assert_eq!(seen.public_state, PublicState::Cancelled, "{id}");
    assert_eq!(seen.cancelled_by, Some(CancelledBy::CancelFlow));
    assert_eq!(seen.ended_because.as_deref(), Some(reason));
    let told = w.event_names(id).await;
    assert_eq!(told.iter().filter(|name| **name == "completion").count(), 1, "{told:?}");
}

fn sorted<const N: usize>(mut ids: [ExecutionId; N]) -> Vec<ExecutionId> {
    ids.sort_unstable();
    ids.to_vec()
}

/// Everything that has not ended ends; what has is untouched.
pub async fn cancelling_all_ends_every_member_that_has_not_ended(w: Arc<World>) {
    let (drawn, fence) = busy(&w).await;
    let ended = [w.get(drawn.id("done")).await, w.get(drawn.id("failed")).await];
    let affected = drawn.ids(["runs", "next", "waits", "late", "held"]);
    let cancelled = w.cancel_flow(drawn.flow, ALL).await.expect("it is open");
    let expected = FlowCancelled {
        policy: ALL,
        reason: "enough".to_owned(),
        members: sorted(affected),
        scheduled: false,
        repeated: false,
    };
    assert_eq!(cancelled, expected);
    for x in ended {
        assert_eq!(w.get(x.id).await, x);
    }
    for id in affected {
        is_cancelled(&w, id, "enough").await;
    }
    assert_eq!(w.event_names(drawn.id("runs")).await, ["lease_revoked", "completion"]);
    assert_eq!(w.event_names(drawn.id("held")).await, ["held", "completion"]);
    for call in worker_calls(drawn.id("runs"), fence) {
        let name = call.name();
        let refused = w.send(call).await.expect_err("it was cancelled");
        assert_eq!(refused.code, Code::ExecutionNotActive, "{name}");
        let outcome = refused.standing.and_then(|standing| standing.outcome);
        assert_eq!(outcome, Some(TerminalOutcome::Cancelled));
    }
    assert!(w.claim_one().await.is_none());
    assert!(w.dispatch().await.is_empty(), "nobody is left to be told");
    let flow = w.flow(drawn.flow).await;
    assert_eq!(flow.ended, Ended { well: 1, badly: 6 });
    let (at, reason) = (w.now(), "enough".to_owned());
    assert_eq!(flow.state, FlowState::Cancelled { at, policy: ALL, reason });
    w.pass(60_000);
    assert!(w.claim_one().await.is_none());
}

/// What has not started is cancelled; what runs finishes, and its result stands.
pub async fn cancelling_what_is_pending_lets_the_running_finish(w: Arc<World>) {
    let (drawn, fence) = busy(&w).await;
    let affected = drawn.ids(["next", "waits", "late", "held"]);
    let cancelled = w.cancel_flow(drawn.flow, PENDING).await.expect("it is open");
    assert_eq!((cancelled.members, cancelled.scheduled), (sorted(affected), false));
    for id in affected {
        is_cancelled(&w, id, "enough").await;
    }
    assert!(w.renew(drawn.id("runs"), fence).await.is_ok());
    assert_eq!(w.complete(drawn.id("runs"), fence).await, Ok(()));
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("runs")).await, PublicState::Completed);
    let edge = w.edge(drawn.flow, drawn.id("runs"), drawn.id("next")).await;
    assert_eq!(edge.state.word(), EdgeWord::Satisfied, "edges are resolved as always");
    assert_eq!(w.state(drawn.id("next")).await, PublicState::Cancelled);
    let flow = w.flow(drawn.flow).await;
    assert_eq!(flow.ended, Ended { well: 2, badly: 5 });
    assert!(matches!(flow.state, FlowState::Cancelled { policy: PENDING, .. }));
    assert_eq!(w.flow_event_names(drawn.flow).await, ["flow_cancel_requested", "flow_ended"]);
}

/// Attempts that are under way go on, also while they sleep, wait for a signal or for children.
pub async fn cancelling_what_is_pending_leaves_attempts_alone(w: Arc<World>) {
    let drawn = w.sketch("sleeps parent asks heard idle").submit().await;
    let [sleeps, parent, asks, heard, idle] =
        drawn.ids(["sleeps", "parent", "asks", "heard", "idle"]);
    let fence = w.start(sleeps).await;
    w.delay(sleeps, fence, w.now().plus(1_000)).await.expect("it is held");
    let fence = w.start(parent).await;
    let child = drawn.id("child");
    let more =
        w.more(drawn.flow, "child").between(NodeRef::Execution(child), NodeRef::Execution(parent));
    let more = more.with(|graph| graph.graph.links[0].kind = DependencyKind::AnyTerminal);
    more.extend_as(parent, fence).await.expect("it is held");
    assert_eq!(w.wait_children(drawn.flow, parent, fence).await, Ok(Waiting::Waiting));
    for id in [asks, heard] {
        let fence = w.start(id).await;
        let mailbox = w.suspend(w.pause(id, fence)).await.remove(0);
        if id == heard {
            w.deliver(mailbox.signal(&w, "go")).await;
        }
    }
    let cancelled = w.cancel_flow(drawn.flow, PENDING).await.expect("it is open");
    assert_eq!(cancelled.members, sorted([child, idle]));
    w.dispatch().await;
    assert_eq!(w.state(sleeps).await, PublicState::Delayed);
    assert_eq!(w.state(asks).await, PublicState::Suspended);
    assert_eq!(w.state(heard).await, PublicState::Waiting);
    assert_eq!(w.state(parent).await, PublicState::Waiting, "its child has ended");
    w.pass(1_000);
    for id in [sleeps, parent, heard] {
        w.succeed(id).await;
    }
    w.dispatch().await;
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 3, badly: 2 });
}

/// A member that a worker takes between the listing and the cancellation goes on.
pub async fn what_a_batch_starts_first_is_not_pending(w: Arc<World>) {
    let drawn = w.sketch("a b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    let cancel = CancelFlow { flow: drawn.flow, policy: PENDING, reason: String::new() };
    let outcomes = w.batch(vec![w.ask(1).claim(a).into(), cancel.into()]).await;
    let Ok(Reply::CancelFlow(cancelled)) = &outcomes[1] else { panic!("{outcomes:?}") };
    assert_eq!(cancelled.members, [b]);
    assert_eq!(w.state(a).await, PublicState::Active);
}

/// No member changes, and the flow takes nothing more.
pub async fn cancelling_the_flow_only_changes_no_member(w: Arc<World>) {
    let (drawn, fence) = busy(&w).await;
    let names = ["done", "failed", "runs", "next", "waits", "late", "held"];
    let mut before = Vec::new();
    for id in drawn.ids(names) {
        before.push(w.get(id).await);
    }
    let cancelled = w.cancel_flow(drawn.flow, FLOW_ONLY).await.expect("it is open");
    assert!(cancelled.members.is_empty());
    for x in before {
        assert_eq!(w.get(x.id).await, x);
    }
    w.complete(drawn.id("runs"), fence).await.expect("it is held");
    w.dispatch().await;
    w.succeed(drawn.id("next")).await;
    w.dispatch().await;
    let flow = w.flow(drawn.flow).await;
    assert_eq!((flow.ended.total(), flow.state.word().as_str()), (4, "cancelled"));
}

/// Whatever would add to a cancelled flow is refused.
pub async fn a_cancelled_flow_takes_nothing_more(w: Arc<World>) {
    for policy in CancellationPolicy::ALL {
        let flow = w.empty_flow().await;
        let [a, b] = w.members(flow).await;
        let fence = w.start(a).await;
        w.cancel_flow(flow, *policy).await.expect("it is open");
        let late = w.candidate(flow).await;
        let terminal = Code::FlowAlreadyTerminal;
        assert_eq!(w.refused(AddMember { flow, execution: late }).await.code, terminal);
        assert_eq!(w.refused(w.staging(flow, a, b).await).await.code, terminal);
        let ask = SetGroupPolicy { flow, downstream: b, policy: any_of(), version: None };
        assert_eq!(w.refused(ask).await.code, terminal);
        assert_eq!(w.refused(w.more(flow, "x>y").extension(None)).await.code, terminal);
        let inside = w.refused(w.more(flow, "x>y").extension(Some((a, fence)))).await.code;
        let fenced = *policy == ALL;
        assert_eq!(inside, if fenced { Code::ExecutionNotActive } else { terminal });
        w.cancel(late).await.expect("it waits");
    }
}

/// There is nothing to cancel in a flow that is not there.
pub async fn an_unknown_flow_is_not_cancelled(w: Arc<World>) {
    let flow = w.flow_id();
    for policy in CancellationPolicy::ALL {
        let refused = w.cancel_flow(flow, *policy).await.expect_err("there is none");
        assert_eq!((refused.code, refused.value), (Code::FlowNotFound, Some(flow.to_string())));
    }
}

/// The first cancellation counts; every later one that asks for no more is told what it said.
pub async fn a_repeated_cancellation_answers_from_the_first(w: Arc<World>) {
    let drawn = w.sketch("a>b c").submit().await;
    let fence = w.start(drawn.id("a")).await;
    w.cancel_flow(drawn.flow, PENDING).await.expect("it is open");
    w.pass(5);
    let before = w.rows();
    for (policy, reason) in [(PENDING, "other"), (PENDING, "enough"), (FLOW_ONLY, "")] {
        let again = CancelFlow { flow: drawn.flow, policy, reason: reason.to_owned() };
        let expected = FlowCancelled {
            policy: PENDING,
            reason: "enough".to_owned(),
            members: Vec::new(),
            scheduled: false,
            repeated: true,
        };
        assert_eq!(w.run(again).await, Ok(expected));
    }
    assert_eq!(w.rows(), before);
    assert!(w.renew(drawn.id("a"), fence).await.is_ok(), "it still runs");
}

/// One that asks for more is carried out; the reason and the time of the first stay.
pub async fn a_stronger_cancellation_is_carried_out(w: Arc<World>) {
    let drawn = w.sketch("a>b c").submit().await;
    let (flow, [a, b, c]) = (drawn.flow, drawn.ids(["a", "b", "c"]));
    let fence = w.start(a).await;
    let first = w.now();
    w.cancel_flow(flow, FLOW_ONLY).await.expect("it is open");
    for (policy, members) in [(PENDING, sorted([b, c])), (ALL, vec![a])] {
        w.pass(5);
        let cancel = CancelFlow { flow, policy, reason: "other".to_owned() };
        let reason = "enough".to_owned();
        let (scheduled, repeated) = (false, false);
        let expected =
            FlowCancelled { policy, reason: reason.clone(), members, scheduled, repeated };
        assert_eq!(w.run(cancel.clone()).await, Ok(expected.clone()));
        assert_eq!(w.flow(flow).await.state, FlowState::Cancelled { at: first, policy, reason });
        let before = w.rows();
        let again = FlowCancelled { members: Vec::new(), repeated: true, ..expected };
        assert_eq!(w.run(cancel).await, Ok(again));
        assert_eq!(w.rows(), before);
    }
    for id in [a, b, c] {
        is_cancelled(&w, id, "enough").await;
    }
    assert_eq!(code(w.complete(a, fence).await), Code::ExecutionNotActive);
    w.dispatch().await;
    assert_eq!(w.flow(flow).await.ended, Ended { well: 0, badly: 3 });
    let requested = "flow_cancel_requested";
    let told = [requested, requested, requested, "flow_ended"];
    assert_eq!(w.flow_event_names(flow).await, told);
}

/// A cancelled flow whose members have all ended has nothing more to cancel.
pub async fn a_cancelled_flow_that_ended_keeps_its_policy(w: Arc<World>) {
    let drawn = w.sketch("a").submit().await;
    w.cancel_flow(drawn.flow, PENDING).await.expect("it is open");
    w.dispatch().await;
    let before = w.rows();
    let cancelled = w.cancel_flow(drawn.flow, ALL).await.expect("it says so");
    assert_eq!((cancelled.policy, cancelled.repeated), (PENDING, true));
    assert_eq!(w.rows(), before);
}

/// What is over cannot be cancelled any more.
pub async fn a_flow_that_ended_is_not_cancelled(w: Arc<World>) {
    let done = w.sketch("a").submit().await;
    w.succeed(done.id("a")).await;
    let failed = w.sketch("a").submit().await;
    w.fail_for_good(failed.id("a")).await;
    w.dispatch().await;
    for flow in [done.flow, failed.flow] {
        let command = CancelFlow { flow, policy: ALL, reason: String::new() };
        assert_eq!(w.refused(command).await.code, Code::FlowAlreadyTerminal);
    }
}

/// Nobody has to say why; whoever does, not at any length.
pub async fn a_cancellation_has_a_reason(w: Arc<World>) {
    let drawn = w.sketch("a").submit().await;
    let flow = drawn.flow;
    let long = CancelFlow { flow, policy: ALL, reason: "x".repeat(4_097) };
    assert_eq!(w.refused(long).await.code, Code::InvalidInput);
    let command = CancelFlow { flow, policy: ALL, reason: String::new() };
    let cancelled = w.run(command).await.expect("it is open");
    assert_eq!(cancelled.reason, "flow_cancelled");
    is_cancelled(&w, drawn.id("a"), "flow_cancelled").await;
    let seen = FlowSnapshot::of(&w.flow(flow).await, &[], false);
    assert_eq!((seen.cancelled_at, seen.ended_at), (Some(w.now()), Some(w.now())));
    assert_eq!(seen.cancel_reason.as_deref(), Some("flow_cancelled"));
    assert_eq!(seen.cancellation_policy, Some(ALL));
}

/// One event says that somebody cancelled the flow, how, why, and how many that concerned.
pub async fn a_cancellation_is_told_once(w: Arc<World>) {
    let (drawn, _) = busy(&w).await;
    w.cancel_flow(drawn.flow, PENDING).await.expect("it is open");
    w.cancel_flow(drawn.flow, PENDING).await.expect("it says so");
    let events = w.flow_events(drawn.flow).await;
    let [event] = events.as_slice() else { panic!("one event: {events:?}") };
    let (policy, reason, members) = (PENDING, "enough".to_owned(), 4);
    assert_eq!(event.kind, EventKind::FlowCancelRequested { policy, reason, members });
    assert_eq!((event.flow, event.execution), (Some(drawn.flow), None));
}

/// Ends that were not dispatched when the flow was cancelled are still counted.
pub async fn ends_before_the_cancellation_are_still_counted(w: Arc<World>) {
    let drawn = w.sketch("a>b c d").submit().await;
    w.succeed(drawn.id("a")).await;
    w.fail_for_good(drawn.id("c")).await;
    w.cancel_flow(drawn.flow, ALL).await.expect("it is open");
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 0, badly: 2 });
    assert_eq!(w.dispatch().await.len(), 2);
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 1, badly: 3 });
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Cancelled);
    let edge = w.edge(drawn.flow, drawn.id("a"), drawn.id("b")).await;
    assert_eq!(edge.state.word(), EdgeWord::Unsatisfied, "nothing is resolved any more");
}

/// After all were cancelled, what was undecided reads as it is: it never will be.
pub async fn undecided_edges_and_groups_read_as_over(w: Arc<World>) {
    let drawn = w.sketch("a>b c>d").open().submit().await;
    let [a, b, c, d] = drawn.ids(["a", "b", "c", "d"]);
    let staged = w.stage(drawn.flow, a, d).await.expect("the edge is valid").edge_id;
    w.succeed(c).await;
    w.dispatch().await;
    let look = async || {
        let flow = w.flow(drawn.flow).await;
        let mut edges = Vec::new();
        for (from, to) in [(a, b), (c, d), (a, d)] {
            let edge = w.edge(drawn.flow, from, to).await;
            let seen = EdgeSnapshot::of(&edge, &flow);
            edges.push((seen.edge_state, seen.resolved_at.is_some()));
        }
        let mut groups = Vec::new();
        for id in [b, d] {
            groups.push(EdgeGroupSnapshot::of(&w.group(drawn.flow, id).await, &flow).group_state);
        }
        (edges, groups)
    };
    let (satisfied, impossible) = ((EdgeWord::Satisfied, true), (EdgeWord::Impossible, true));
    let (edges, groups) = look().await;
    assert_eq!(edges, [(EdgeWord::Unsatisfied, false), satisfied, (EdgeWord::Staged, false)]);
    assert_eq!(groups, [GroupWord::Pending, GroupWord::Satisfied]);
    w.cancel_flow(drawn.flow, ALL).await.expect("it is open");
    let (edges, groups) = look().await;
    assert_eq!(edges, [impossible, satisfied, impossible]);
    assert_eq!(groups, [GroupWord::Cancelled, GroupWord::Satisfied]);
    assert_eq!(code(w.apply(drawn.flow, staged).await), Code::FlowAlreadyTerminal);
    assert!(w.due(Duty::DependencyReconciler, 10).await.commands.is_empty());
}

/// Whatever a batch adds before the cancellation is cancelled with the rest.
pub async fn what_a_batch_adds_is_cancelled_with_the_rest(w: Arc<World>) {
    for policy in [ALL, PENDING] {
        let drawn = w.sketch("a").open().submit().await;
        let flow = drawn.flow;
        let late = w.candidate(flow).await;
        let cancel = CancelFlow { flow, policy, reason: "enough".to_owned() };
        let batch: Vec<Command> = vec![
            w.more(flow, "x>y").extension(None).into(),
            AddMember { flow, execution: late }.into(),
            cancel.into(),
        ];
        let outcomes = w.batch(batch).await;
        let Ok(Reply::CancelFlow(cancelled)) = &outcomes[2] else { panic!("{outcomes:?}") };
        let [a, x, y] = drawn.ids(["a", "x", "y"]);
        assert_eq!(cancelled.members, sorted([a, x, y, late]));
        for id in [a, x, y, late] {
            is_cancelled(&w, id, "enough").await;
        }
    }
}

/// A flow made, filled and cancelled in one batch leaves nobody behind.
pub async fn a_flow_may_be_submitted_and_cancelled_in_one_batch(w: Arc<World>) {
    let submission = w.sketch("a>b").submission();
    let drawn = Drawn { flow: submission.flow.id };
    let cancel = CancelFlow { flow: drawn.flow, policy: ALL, reason: String::new() };
    let outcomes = w.batch(vec![submission.into(), cancel.into()]).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    for id in drawn.ids(["a", "b"]) {
        is_cancelled(&w, id, "flow_cancelled").await;
    }
    assert!(w.claim_one().await.is_none());
}

/// What completed earlier in the batch stays completed, and is counted once.
pub async fn what_a_batch_ends_first_is_not_cancelled(w: Arc<World>) {
    let drawn = w.sketch("a b").submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    let fence = w.start(a).await;
    let cancel = CancelFlow { flow: drawn.flow, policy: ALL, reason: String::new() };
    let outcomes = w.batch(vec![completion(a, fence, b"done").into(), cancel.into()]).await;
    let Ok(Reply::CancelFlow(cancelled)) = &outcomes[1] else { panic!("{outcomes:?}") };
    assert_eq!(cancelled.members, [b]);
    w.dispatch().await;
    assert_eq!(w.state(a).await, PublicState::Completed);
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 1, badly: 1 });
}

/// A worker's success and the cancellation at the same moment: one of them counts.
pub async fn completion_and_cancellation_at_the_same_time(w: Arc<World>) {
    for _ in 0..5 {
        let drawn = w.sketch("a>b").submit().await;
        let a = drawn.id("a");
        let fence = w.start(a).await;
        let (done, _) = tokio::join!(w.complete(a, fence), w.cancel_flow(drawn.flow, ALL));
        let expected = if done.is_ok() { PublicState::Completed } else { PublicState::Cancelled };
        assert_eq!(w.state(a).await, expected);
        assert_eq!(w.state(drawn.id("b")).await, PublicState::Cancelled);
        w.dispatch().await;
        assert_eq!(w.flow(drawn.flow).await.ended.total(), 2);
    }
}

/// A flow without members is cancelled like any other.
pub async fn an_empty_flow_is_cancelled(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let cancelled = w.cancel_flow(flow, ALL).await.expect("it is open");
    assert!(cancelled.members.is_empty() && !cancelled.scheduled);
    assert_eq!(w.flow_event_names(flow).await, ["flow_cancel_requested", "flow_ended"]);
}

/// The siblings of a group that fired before are over, and its row is taken away.
pub async fn siblings_of_a_cancelled_flow_are_over(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_of()).submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.cancel_flow(drawn.flow, ALL).await.expect("it is open");
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await.len(), 1);
    is_cancelled(&w, drawn.id("b"), "enough").await;
    assert!((w.store.dump)().cancels.is_empty());
}

/// Nothing is owed by flows that were cancelled in one go, or not at all.
pub async fn a_flow_that_owes_nothing_is_left_alone(w: Arc<World>) {
    let drawn = w.sketch("a").submit().await;
    let other = w.sketch("a").submit().await;
    w.cancel_flow(drawn.flow, ALL).await.expect("it is open");
    assert!(w.due(Duty::CancelBacklog, 10).await.commands.is_empty());
    let before = w.rows();
    let gone: FlowId = w.flow_id();
    for flow in [drawn.flow, other.flow, gone] {
        let nothing = OwedCancelled { cancelled: 0, more: false };
        assert_eq!(w.run(CancelOwed { flow }).await, Ok(nothing));
    }
    assert_eq!(w.rows(), before);
}

/// A member between two attempts is not running: it is cancelled with what is pending.
pub async fn what_was_given_back_is_pending(w: Arc<World>) {
    let policy = json!({"retry_policy": {"max_retries": 3}});
    let drawn = w.sketch("a b").policy(&policy).submit().await;
    let [a, b] = drawn.ids(["a", "b"]);
    let fence = w.start(a).await;
    w.fail(a, fence).await.expect("it is held");
    let fence = w.start(b).await;
    w.release(b, fence).await.expect("it is held");
    let cancelled = w.cancel_flow(drawn.flow, PENDING).await.expect("it is open");
    assert_eq!(cancelled.members, sorted([a, b]));
    for id in [a, b] {
        is_cancelled(&w, id, "enough").await;
    }
    w.dispatch().await;
    assert_eq!(w.flow(drawn.flow).await.ended, Ended { well: 0, badly: 2 });
}

/// A group that waits for all is as much over as any other.
pub async fn a_cancelled_member_lets_nobody_go(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", EdgePolicy::AllOf).submit().await;
    let fence = w.start(drawn.id("a")).await;
    w.cancel_flow(drawn.flow, PENDING).await.expect("it is open");
    w.complete(drawn.id("a"), fence).await.expect("it is held");
    w.dispatch().await;
    assert_eq!(w.counted(drawn.flow, drawn.id("z")).await, [2, 1, 1, 0]);
    assert_eq!(w.state(drawn.id("z")).await, PublicState::Cancelled);
}
