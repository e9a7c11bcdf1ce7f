//! Siblings: a group is decided, and nobody needs those of its upstreams that still run.

use std::sync::Arc;

use ff_core::backend::{Duty, Interest, WorkFilter};
use ff_core::command::{Command, Reply};
use ff_core::decide::apply_edge::ApplyEdge;
use ff_core::decide::dispatch::DispatchCompletion;
use ff_core::decide::sibling_cancel::{CancelSiblings, SiblingsCancelled};
use ff_core::decide::sibling_reconcile::{ReconcileSiblings, SiblingsReconciled};
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::CancelledBy;
use ff_core::flow::{CancellationPolicy, Ended, FlowWord, GroupWord, SiblingsReason};
use ff_core::policy::Policy;
use ff_core::state::{PublicState, TerminalOutcome};
use ff_core::view::{EdgeGroupSnapshot, FlowSummary};
use ff_core::{ExecutionId, FlowId};
use serde_json::json;

use super::calls::tags;
use crate::world::{Drawn, World, any_let_run, any_of, code, namespace, quorum, quorum_let_run};

fn dispatched(cancelled: u32, already_terminal: u32) -> Reply {
    let (spared, not_found) = (0, 0);
    let done = SiblingsCancelled::Dispatched { cancelled, spared, already_terminal, not_found };
    Reply::CancelSiblings(done)
}

/// So many were cancelled and so many were not, because another group needs them.
fn sparing(cancelled: u32, spared: u32) -> Reply {
    let (already_terminal, not_found) = (0, 0);
    let done = SiblingsCancelled::Dispatched { cancelled, spared, already_terminal, not_found };
    Reply::CancelSiblings(done)
}

/// How many upstreams of a group run on although it cancelled what remained.
async fn spared(w: &World, flow: FlowId, id: ExecutionId) -> u32 {
    let group = w.group(flow, id).await;
    EdgeGroupSnapshot::of(&group, &w.flow(flow).await).spared_count
}

/// How many the summary of a flow counts.
async fn spared_in_all(w: &World, flow: FlowId) -> u64 {
    FlowSummary::of(&w.flow(flow).await, &w.buckets(flow).await, w.now()).spared_count
}

async fn is_cancelled_for(w: &World, id: ExecutionId, reason: &str) {
    let seen = w.snapshot(id).await;
    assert_eq!(seen.public_state, PublicState::Cancelled);
    assert_eq!(seen.cancelled_by, Some(CancelledBy::Engine));
    assert_eq!(seen.ended_because.as_deref(), Some(reason));
}

/// Whether siblings of the group of `id` are to be cancelled, and why they were or will be.
async fn flag(w: &World, flow: FlowId, id: ExecutionId) -> Option<(bool, SiblingsReason)> {
    w.group(flow, id).await.siblings.map(|siblings| (siblings.pending, siblings.reason))
}

/// Starts the upstreams `names` and lets the first of them succeed.
async fn race(w: &World, drawn: Drawn, names: &[&str]) -> Vec<ff_core::Fence> {
    let mut fences = Vec::new();
    for name in names {
        fences.push(w.start(drawn.id(name)).await);
    }
    w.complete(drawn.id(names[0]), fences[0]).await.expect("it is held");
    w.dispatch().await;
    fences
}

/// The first success lets the child go; the others are cancelled, fenced, and say so once.
pub async fn the_first_success_cancels_the_rest(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z c>z").join("z", any_of()).submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    let fences = race(&w, drawn, &["a", "b", "c"]).await;
    assert_eq!(w.state(z).await, PublicState::Waiting);
    assert_eq!(flag(&w, flow, z).await, Some((true, SiblingsReason::Satisfied)));
    for id in drawn.ids(["b", "c"]) {
        assert_eq!(w.state(id).await, PublicState::Active, "not yet");
    }
    let due = w.due(Duty::EdgeCancelDispatcher, 10).await;
    assert_eq!(due.commands, [Command::from(CancelSiblings { flow, downstream: z })]);
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(dispatched(2, 0))]);
    for (id, fence) in drawn.ids(["b", "c"]).into_iter().zip(&fences[1..]) {
        is_cancelled_for(&w, id, "sibling_quorum_satisfied").await;
        assert_eq!(w.event_names(id).await, ["lease_revoked", "completion"]);
        let completion = EventKind::Completion {
            outcome: TerminalOutcome::Cancelled,
            attempt_index: Some(0),
            reason: Some("sibling_quorum_satisfied".to_owned()),
        };
        assert_eq!(w.events(id).await[1].kind, completion);
        assert_eq!(code(w.complete(id, *fence).await), Code::ExecutionNotActive);
    }
    assert_eq!(flag(&w, flow, z).await, Some((false, SiblingsReason::Satisfied)));
    assert!((w.store.dump)().cancels.is_empty());
    let before = w.rows();
    assert!(w.tick(Duty::EdgeCancelDispatcher).await.is_empty());
    let again = w.run(CancelSiblings { flow, downstream: z }).await;
    assert_eq!((again, w.rows()), (Ok(SiblingsCancelled::Gone), before));
    w.dispatch().await;
    assert_eq!(w.counted(flow, z).await, [3, 1, 2, 0], "later ends move counters only");
    assert_eq!(w.state(z).await, PublicState::Waiting);
}

/// A quorum that was lost cancels the survivors for that reason.
pub async fn a_lost_quorum_cancels_the_survivors(w: Arc<World>) {
    let sketch = "a>z b>z c>z d>z e>z";
    let drawn = w.sketch(sketch).join("z", quorum(3)).submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    w.start(drawn.id("d")).await;
    for id in drawn.ids(["a", "b", "c"]) {
        assert_eq!(w.state(z).await, PublicState::WaitingChildren);
        w.fail_for_good(id).await;
        w.dispatch().await;
    }
    assert_eq!(w.state(z).await, PublicState::Skipped);
    assert_eq!(flag(&w, flow, z).await, Some((true, SiblingsReason::Impossible)));
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(dispatched(2, 0))]);
    for id in drawn.ids(["d", "e"]) {
        is_cancelled_for(&w, id, "sibling_quorum_impossible").await;
    }
    assert_eq!(w.event_names(drawn.id("d")).await, ["lease_revoked", "completion"]);
    assert_eq!(w.event_names(drawn.id("e")).await, ["completion"], "it held no lease");
    assert_eq!(flag(&w, flow, z).await, Some((false, SiblingsReason::Impossible)));
}

/// Who says so lets the others run on, won or lost.
pub async fn let_run_leaves_siblings_alone(w: Arc<World>) {
    for (policy, wins) in [(any_let_run(), true), (quorum_let_run(2), false)] {
        let drawn = w.sketch("a>z b>z c>z").join("z", policy).submit().await;
        if wins {
            w.succeed(drawn.id("a")).await;
        } else {
            w.fail_for_good(drawn.id("a")).await;
            w.fail_for_good(drawn.id("b")).await;
        }
        let fence = w.start(drawn.id("c")).await;
        w.dispatch().await;
        let (flow, z) = (drawn.flow, drawn.id("z"));
        assert_ne!(w.group(flow, z).await.state.word(), GroupWord::Pending);
        assert_eq!(flag(&w, flow, z).await, None);
        assert!(w.tick(Duty::EdgeCancelDispatcher).await.is_empty());
        assert_eq!(w.complete(drawn.id("c"), fence).await, Ok(()));
    }
}

/// Who waits for all has nothing to cancel when one fails: each goes on for itself.
pub async fn a_group_of_all_cancels_nobody(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").submit().await;
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("z")).await, PublicState::Skipped);
    assert!(w.tick(Duty::EdgeCancelDispatcher).await.is_empty());
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Waiting);
}

/// A sibling that ended meanwhile keeps its end.
pub async fn a_sibling_that_ended_is_left_alone(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z c>z").join("z", any_of()).submit().await;
    let fences = race(&w, drawn, &["a", "b"]).await;
    w.complete(drawn.id("b"), fences[1]).await.expect("it is held");
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(dispatched(1, 1))]);
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Completed);
    is_cancelled_for(&w, drawn.id("c"), "sibling_quorum_satisfied").await;
    w.dispatch().await;
    assert_eq!(w.counted(drawn.flow, drawn.id("z")).await, [3, 2, 1, 0]);
}

/// A group whose siblings were all done has a row to take away, and nothing to cancel.
pub async fn a_group_without_siblings_left_is_drained(w: Arc<World>) {
    let drawn = w.sketch("a>z").join("z", any_of()).submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(dispatched(0, 0))]);
    assert!((w.store.dump)().cancels.is_empty());
}

/// A group that has fired and cancels what remains needs no upstream any more: it only counts how a
/// cancelled one ended. One that lets what remains run keeps it, also once its own execution has ended.
pub async fn a_group_that_fired_keeps_what_it_lets_run(w: Arc<World>) {
    for (policy, keeps) in [(any_of(), false), (any_let_run(), true)] {
        let sketch = w.sketch("a>z b>z b>y d>y").join("z", any_of()).join("y", policy);
        let drawn = sketch.submit().await;
        let (flow, [b, y, z]) = (drawn.flow, drawn.ids(["b", "y", "z"]));
        let fence = w.start(b).await;
        for node in ["d", "y", "a"] {
            assert_eq!(w.state(b).await, PublicState::Active);
            w.succeed(drawn.id(node)).await;
            w.dispatch().await;
            w.tick(Duty::EdgeCancelDispatcher).await;
        }
        assert_eq!(spared(&w, flow, z).await, u32::from(keeps));
        if keeps {
            assert_eq!(w.complete(b, fence).await, Ok(()));
        } else {
            is_cancelled_for(&w, b, "sibling_quorum_satisfied").await;
        }
        w.dispatch().await;
        assert_eq!(w.counted(flow, y).await, if keeps { [2, 2, 0, 0] } else { [2, 1, 1, 0] });
        w.succeed(z).await;
        w.dispatch().await;
        assert_eq!(w.flow(flow).await.state.word(), FlowWord::Completed);
    }
}

/// A sibling that another node waits for goes on, and the other node runs.
pub async fn a_sibling_that_another_waits_for_is_spared(w: Arc<World>) {
    let drawn = w.sketch("a>j b>j a>k").join("j", any_of()).submit().await;
    let (flow, [a, j, k]) = (drawn.flow, drawn.ids(["a", "j", "k"]));
    let fence = w.start(a).await;
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(sparing(0, 1))]);
    assert_eq!(w.state(a).await, PublicState::Active, "another node waits for it");
    assert_eq!(spared(&w, flow, j).await, 1);
    assert_eq!(flag(&w, flow, j).await, Some((false, SiblingsReason::Satisfied)));
    assert!((w.store.dump)().cancels.is_empty());
    assert!(w.renew(a, fence).await.is_ok());
    assert_eq!(w.complete(a, fence).await, Ok(()));
    w.dispatch().await;
    assert_eq!(spared(&w, flow, j).await, 0, "it has ended");
    assert_eq!(w.state(k).await, PublicState::Waiting);
    for id in [j, k] {
        w.succeed(id).await;
    }
    w.dispatch().await;
    let flow = w.flow(flow).await;
    assert_eq!((flow.state.word(), flow.ended), (FlowWord::Completed, Ended { well: 4, badly: 0 }));
}

/// The summary counts what each join spared and has not ended since. Edges of a join that has not dealt
/// with its siblings, and of other flows, are not counted.
pub async fn the_summary_counts_what_was_spared(w: Arc<World>) {
    let sketch = w.sketch("a>i b>i c>i a>j b>j a>k b>l m>n");
    let drawn = sketch.join("i", any_of()).join("j", any_of()).submit().await;
    let other = w.sketch("a>j b>j a>k").join("j", any_of()).submit().await;
    let (flow, [a, b, c]) = (drawn.flow, drawn.ids(["a", "b", "c"]));
    assert_eq!(spared_in_all(&w, flow).await, 0, "nothing fired");
    w.succeed(c).await;
    w.dispatch().await;
    assert_eq!(spared_in_all(&w, flow).await, 0, "its siblings are still to be cancelled");
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(sparing(0, 2))]);
    assert_eq!(spared_in_all(&w, flow).await, 2);
    let fence = w.start(a).await;
    w.succeed(b).await;
    w.dispatch().await;
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(sparing(0, 1))]);
    let each = [spared(&w, flow, drawn.id("i")).await, spared(&w, flow, drawn.id("j")).await];
    assert_eq!((each, spared_in_all(&w, flow).await), ([1, 1], 2), "two joins spared it");
    assert_eq!(spared_in_all(&w, other.flow).await, 0);
    w.complete(a, fence).await.expect("it is held");
    w.dispatch().await;
    assert_eq!(spared_in_all(&w, flow).await, 0, "it has ended");
}

/// Of a flow that is cancelled with all its members, nothing goes on.
pub async fn nothing_stays_spared_in_a_cancelled_flow(w: Arc<World>) {
    let drawn = w.sketch("a>j b>j a>k").join("j", any_of()).submit().await;
    let (flow, j) = (drawn.flow, drawn.id("j"));
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    assert_eq!((spared(&w, flow, j).await, spared_in_all(&w, flow).await), (1, 1));
    w.cancel_flow(flow, CancellationPolicy::All).await.expect("it is open");
    assert_eq!((spared(&w, flow, j).await, spared_in_all(&w, flow).await), (0, 0));
}

/// What is cancelled with the others keeps no sibling: one that only it waited for goes too, at any
/// distance. Otherwise one that waits for a signal that never comes would keep the flow open for ever.
pub async fn a_sibling_is_not_spared_for_one_that_goes_too(w: Arc<World>) {
    let drawn = w.sketch("a>k>l a>j k>j l>j b>j").join("j", any_of()).submit().await;
    let waiting = drawn.id("a");
    let fence = w.start(waiting).await;
    w.suspend(w.pause(waiting, fence)).await;
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(dispatched(3, 0))]);
    for id in drawn.ids(["a", "k", "l"]) {
        is_cancelled_for(&w, id, "sibling_quorum_satisfied").await;
    }
    w.succeed(drawn.id("j")).await;
    w.dispatch().await;
    let flow = w.flow(drawn.flow).await;
    assert_eq!((flow.state.word(), flow.ended), (FlowWord::Completed, Ended { well: 5, badly: 0 }));
}

/// A sibling is spared for one that is spared itself.
pub async fn a_sibling_is_spared_for_one_that_is_spared(w: Arc<World>) {
    let drawn = w.sketch("a>k>m a>j k>j b>j").join("j", any_of()).submit().await;
    let [a, k, m] = drawn.ids(["a", "k", "m"]);
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(sparing(0, 2))]);
    for id in [a, k, m] {
        w.succeed(id).await;
        w.dispatch().await;
    }
    assert_eq!(w.counted(drawn.flow, drawn.id("j")).await, [3, 3, 0, 0]);
}

/// What has ended keeps no sibling, though its own group has not fired: it was cancelled, or ran out of
/// time, while it waited.
pub async fn a_sibling_is_not_spared_for_one_that_ended(w: Arc<World>) {
    for expires in [false, true] {
        let deadline = json!({"timeout_policy": {"execution_deadline_ms": 50}});
        let deadline = Policy::parse(&deadline).expect("the policy is valid");
        let sketch = w.sketch("a>k a>j b>j").join("j", any_of());
        let drawn = sketch.node("k", |k| k.policy = deadline).submit().await;
        let (flow, [a, j, k]) = (drawn.flow, drawn.ids(["a", "j", "k"]));
        if expires {
            w.pass(50);
            w.tick(Duty::Deadline).await;
        } else {
            w.cancel(k).await.expect("it has not ended");
        }
        w.dispatch().await;
        assert_eq!(w.group(flow, k).await.state.word(), GroupWord::Pending);
        w.succeed(drawn.id("b")).await;
        w.dispatch().await;
        assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(dispatched(1, 0))]);
        is_cancelled_for(&w, a, "sibling_quorum_satisfied").await;
        w.dispatch().await;
        w.succeed(j).await;
        w.dispatch().await;
        assert_eq!(w.flow(flow).await.state.word(), FlowWord::Failed, "of {k}");
    }
}

/// A spared sibling runs on, whatever becomes of what waits for it, unless that cancels what remains.
pub async fn a_spared_sibling_runs_on(w: Arc<World>) {
    let drawn = w.sketch("a>j b>j a>k c>k").join("j", any_of()).submit().await;
    let a = drawn.id("a");
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    w.fail_for_good(drawn.id("c")).await;
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("k")).await, PublicState::Skipped);
    assert!(w.tick(Duty::EdgeCancelDispatcher).await.is_empty());
    assert_eq!(w.state(a).await, PublicState::Waiting);
    w.succeed(a).await;
    w.dispatch().await;
    assert_eq!(w.counted(drawn.flow, drawn.id("j")).await, [2, 2, 0, 0]);
}

/// An edge that is added after the group fired spares a sibling too, applied or only staged.
pub async fn an_edge_added_before_the_drain_spares_its_upstream(w: Arc<World>) {
    for applied in [true, false] {
        let drawn = w.sketch("a>z b>z c>z k").join("z", any_of()).open().submit().await;
        let (flow, [b, c, k]) = (drawn.flow, drawn.ids(["b", "c", "k"]));
        w.succeed(drawn.id("a")).await;
        w.dispatch().await;
        let staged = w.stage(flow, b, k).await.expect("the edge is valid");
        if applied {
            w.apply(flow, staged.edge_id).await.expect("it is staged");
        }
        assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(sparing(1, 1))]);
        assert_eq!(w.state(b).await, PublicState::Waiting);
        is_cancelled_for(&w, c, "sibling_quorum_satisfied").await;
        assert_eq!(spared(&w, flow, drawn.id("z")).await, 1);
    }
}

/// The reconciler waits for no sibling that is spared.
pub async fn the_reconciler_leaves_spared_siblings_alone(w: Arc<World>) {
    let drawn = w.sketch("a>j b>j a>k c>j").join("j", any_of()).submit().await;
    let (flow, [a, b, c, downstream]) = (drawn.flow, drawn.ids(["a", "b", "c", "j"]));
    let fence = w.start(c).await;
    w.succeed(b).await;
    w.dispatch().await;
    let no_op = Ok(SiblingsReconciled::NoOp);
    assert_eq!(w.run(ReconcileSiblings { flow, downstream }).await, no_op);
    w.complete(c, fence).await.expect("it is held");
    let drained = Ok(SiblingsReconciled::CompletedDrain);
    assert_eq!(w.run(ReconcileSiblings { flow, downstream }).await, drained);
    assert_eq!(w.state(a).await, PublicState::Waiting);
    assert_eq!(flag(&w, flow, downstream).await, Some((false, SiblingsReason::Satisfied)));
    assert!((w.store.dump)().cancels.is_empty());
    assert_eq!(spared(&w, flow, downstream).await, 1);
}

/// Of a sibling that a batch brings, not everything is known: the group is drained in the next round.
pub async fn a_sibling_that_a_batch_brings_is_left_for_later(w: Arc<World>) {
    let drawn = w.sketch("a>z q>k").join("z", any_of()).open().submit().await;
    let (flow, [a, q, z]) = (drawn.flow, drawn.ids(["a", "q", "z"]));
    w.succeed(a).await;
    let staging = w.staging(flow, q, z).await;
    let edge = staging.edge;
    let batch = vec![
        staging.into(),
        ApplyEdge { flow, edge, upstream: None, downstream: None }.into(),
        DispatchCompletion { flow, execution: a, eager: false }.into(),
        CancelSiblings { flow, downstream: z }.into(),
    ];
    let outcomes = w.batch(batch).await;
    let later = Reply::CancelSiblings(SiblingsCancelled::SkippedLocked);
    assert_eq!(outcomes[3], Ok(later), "{outcomes:?}");
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(sparing(0, 1))]);
    assert_eq!(w.state(q).await, PublicState::Waiting, "another node waits for it");
    assert!((w.store.dump)().cancels.is_empty());
}

/// A sibling that itself waits is cancelled; what it waits for goes on.
pub async fn a_waiting_sibling_is_cancelled(w: Arc<World>) {
    let drawn = w.sketch("a>z r>b>z").join("z", any_of()).submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(dispatched(1, 0))]);
    is_cancelled_for(&w, drawn.id("b"), "sibling_quorum_satisfied").await;
    w.succeed(drawn.id("r")).await;
    w.dispatch().await;
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Cancelled);
}

/// Many siblings of one group go in one transaction: never half of them.
pub async fn a_group_is_never_half_drained(w: Arc<World>) {
    let sketch = (0..200).map(|n| format!("n{n}>z")).collect::<Vec<_>>().join(" ");
    let drawn = w.sketch(&sketch).join("z", any_of()).submit().await;
    w.succeed(drawn.id("n0")).await;
    w.dispatch().await;
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await, [Ok(dispatched(199, 0))]);
    assert_eq!(w.buckets(drawn.flow).await.of(PublicState::Cancelled), 199);
}

/// The reconciler cancels nothing, and does nothing while a sibling runs.
pub async fn the_reconciler_cancels_nothing(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_of()).submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    let fences = race(&w, drawn, &["a", "b"]).await;
    let before = w.rows();
    let no_op = Reply::ReconcileSiblings(SiblingsReconciled::NoOp);
    assert_eq!(w.tick(Duty::EdgeCancelReconciler).await, [Ok(no_op)]);
    assert_eq!(w.rows(), before);
    assert!(w.renew(drawn.id("b"), fences[1]).await.is_ok());
    w.complete(drawn.id("b"), fences[1]).await.expect("it is held");
    let drained = Ok(SiblingsReconciled::CompletedDrain);
    assert_eq!(w.run(ReconcileSiblings { flow, downstream: z }).await, drained);
    assert_eq!(flag(&w, flow, z).await, Some((false, SiblingsReason::Satisfied)));
    assert!((w.store.dump)().cancels.is_empty());
    assert!(w.tick(Duty::EdgeCancelReconciler).await.is_empty());
    assert!(w.tick(Duty::EdgeCancelDispatcher).await.is_empty());
}

/// There is nothing to do for groups that are unknown or have not fired.
pub async fn a_group_that_has_not_fired_cancels_nobody(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_of()).submit().await;
    let before = w.rows();
    for downstream in drawn.ids(["z", "a", "nobody"]) {
        let flow = drawn.flow;
        let cancelled = w.run(CancelSiblings { flow, downstream }).await;
        assert_eq!(cancelled, Ok(SiblingsCancelled::Gone));
        let reconciled = w.run(ReconcileSiblings { flow, downstream }).await;
        assert_eq!(reconciled, Ok(SiblingsReconciled::NoOp));
    }
    assert_eq!(w.rows(), before);
}

/// A group that fires and is drained in one batch leaves no sibling running.
pub async fn a_group_may_fire_and_be_drained_in_one_batch(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z c>z").join("z", any_of()).submit().await;
    let (flow, z) = (drawn.flow, drawn.id("z"));
    w.succeed(drawn.id("a")).await;
    let batch = vec![
        DispatchCompletion { flow, execution: drawn.id("a"), eager: false }.into(),
        ReconcileSiblings { flow, downstream: z }.into(),
        CancelSiblings { flow, downstream: z }.into(),
    ];
    let outcomes = w.batch(batch).await;
    let no_op = Reply::ReconcileSiblings(SiblingsReconciled::NoOp);
    assert_eq!(outcomes[1..], [Ok(no_op), Ok(dispatched(2, 0))]);
    for id in drawn.ids(["b", "c"]) {
        is_cancelled_for(&w, id, "sibling_quorum_satisfied").await;
    }
}

/// One upstream of two groups is cancelled when both have fired, and counts in both.
pub async fn a_sibling_of_two_groups_is_cancelled_with_the_second(w: Arc<World>) {
    let sketch = w.sketch("a>y b>y b>z c>z").join("y", any_of()).join("z", any_of());
    let drawn = sketch.submit().await;
    let [b, y, z] = drawn.ids(["b", "y", "z"]);
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    w.dispatch().await;
    assert_eq!(w.state(b).await, PublicState::Waiting);
    assert_eq!(w.counted(drawn.flow, y).await, [2, 1, 0, 0]);
    assert_eq!(w.counted(drawn.flow, z).await, [2, 0, 0, 0]);
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    is_cancelled_for(&w, b, "sibling_quorum_satisfied").await;
    w.dispatch().await;
    for id in [y, z] {
        assert_eq!(w.counted(drawn.flow, id).await, [2, 1, 1, 0]);
    }
}

/// Two groups that fired need each other's siblings no more, whichever is drained first.
pub async fn two_groups_that_fired_spare_nobody_for_each_other(w: Arc<World>) {
    let sketch = w.sketch("a>y b>y b>z c>z").join("y", any_of()).join("z", any_of());
    let drawn = sketch.submit().await;
    for node in ["a", "c"] {
        w.succeed(drawn.id(node)).await;
    }
    w.dispatch().await;
    assert_eq!(w.tick(Duty::EdgeCancelDispatcher).await.len(), 2);
    is_cancelled_for(&w, drawn.id("b"), "sibling_quorum_satisfied").await;
    assert!((w.store.dump)().cancels.is_empty());
}

async fn fired(w: &World, drawn: Drawn) {
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.pass(10);
}

/// The group that fired first is drained first, no more at a time than asked for.
pub async fn groups_are_drained_oldest_first(w: Arc<World>) {
    let mut order = Vec::new();
    for _ in 0..3 {
        let drawn = w.sketch("a>z b>z").join("z", any_of()).submit().await;
        fired(&w, drawn).await;
        order.push(drawn);
    }
    let expected = |n: usize| -> Vec<Command> {
        let of = |drawn: &Drawn| CancelSiblings { flow: drawn.flow, downstream: drawn.id("z") };
        order[..n].iter().map(|drawn| of(drawn).into()).collect()
    };
    for limit in [0, 2, 3] {
        let due = w.due(Duty::EdgeCancelDispatcher, limit).await;
        let n = usize::try_from(limit).expect("a small count");
        assert_eq!((due.commands, due.next), (expected(n), None));
    }
    assert_eq!(w.due(Duty::EdgeCancelReconciler, 2).await.commands.len(), 2);
}

/// A process that serves one tenant, or one tag, drains the groups of their flows.
pub async fn siblings_may_be_cancelled_for_some_flows(w: Arc<World>) {
    let theirs = w.sketch("a>z b>z").join("z", any_of()).with(|submission| {
        submission.flow.namespace = namespace("other");
        let nodes = submission.graph.nodes.iter_mut();
        nodes.for_each(|node| node.create.namespace = namespace("other"));
    });
    let tagged = w.sketch("a>z b>z").join("z", any_of());
    let tagged = tagged.with(|submission| submission.flow.tags = tags(&[("app.run", "1")]));
    let (theirs, tagged) = (theirs.submit().await, tagged.submit().await);
    fired(&w, theirs).await;
    fired(&w, tagged).await;
    for duty in [Duty::EdgeCancelDispatcher, Duty::EdgeCancelReconciler] {
        let due = async |filter: WorkFilter| {
            let due = w.store.backend.due(duty, &filter, 10).await;
            due.expect("the store works").commands.len()
        };
        let namespace = Some(namespace("other"));
        let tag = Some(("app.run".to_owned(), "1".to_owned()));
        assert_eq!(due(WorkFilter { namespace: namespace.clone(), tag: None }).await, 1);
        assert_eq!(due(WorkFilter { namespace: None, tag: tag.clone() }).await, 1);
        assert_eq!(due(WorkFilter { namespace, tag }).await, 0);
        assert_eq!(due(WorkFilter::default()).await, 2);
    }
}

/// Whoever cancels siblings is woken when a group fires.
pub async fn a_group_that_fires_wakes_the_dispatcher(w: Arc<World>) {
    let drawn = w.sketch("a>z b>z").join("z", any_of()).submit().await;
    w.succeed(drawn.id("a")).await;
    let seen = w.store.backend.generation(Interest::Cancels);
    w.dispatch().await;
    w.woken(Interest::Cancels, seen).await;
}
