//! Flows of which a part is gone: whoever has the id of a removed member now is a stranger to them.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create::Create;
use ff_core::decide::reconcile_group::ReconcileGroup;
use ff_core::decide::replay::Replay;
use ff_core::decide::sibling_cancel::SiblingsCancelled;
use ff_core::decide::sibling_reconcile::SiblingsReconciled;
use ff_core::decide::trim_flow::{FlowTrimmed, TrimFlow};
use ff_core::error::Code;
use ff_core::flow::{CancellationPolicy, FlowWord, GroupWord};
use ff_core::state::PublicState;
use ff_core::text::ConsumerName;
use ff_core::{ExecutionId, FlowId, Policy};
use serde_json::json;

use super::calls::cancellation;
use crate::world::{Drawn, World, any_of, code};

const DAY: i64 = 86_400_000;

fn consumer() -> ConsumerName {
    "slow".parse().expect("a valid name")
}

fn at_once() -> Policy {
    Policy::parse(&json!({"retention_ms": 0})).expect("a valid policy")
}

/// Has a consumer see everything so far, and nothing more.
async fn see(w: &World) {
    let cursor = w.store.backend.tail().await.expect("the store works");
    w.run(SaveCursor { consumer: consumer(), cursor, saved: None }).await.expect("valid");
}

/// Removes the members whose ends were seen, so many of them.
async fn trim_seen(w: &World, flow: FlowId, members: u32) {
    let outcomes = w.batch(vec![TrimFlow { flow }.into()]).await;
    assert_eq!(outcomes, [Ok(Reply::TrimFlow(FlowTrimmed { members, flow: false }))]);
}

/// Creates an execution that belongs to no flow under the id of one that is gone.
async fn stranger(w: &World, id: ExecutionId) {
    assert_eq!(w.find(id).await, None);
    w.create(Create { policy: at_once(), ..w.draft_of(id) }).await;
}

/// A skipped member does not wait for whoever has the id of the one that it waited for, nor does it
/// run because that one succeeds.
pub async fn a_stranger_is_not_waited_for(w: Arc<World>) {
    let drawn = w.sketch("a>b").policy(&json!({"retention_ms": 0})).submit().await;
    let (flow, [a, b]) = (drawn.flow, drawn.ids(["a", "b"]));
    w.fail_for_good(a).await;
    see(&w).await;
    w.dispatch().await;
    assert_eq!(w.flow_state(flow).await, FlowWord::Failed);
    trim_seen(&w, flow, 1).await;
    let replay = Replay { id: b, reason: "once more".to_owned(), replays: None, downstream: true };
    assert_eq!(w.refused(replay.clone()).await.code, Code::DepsNotSatisfied);
    stranger(&w, a).await;
    assert_eq!(w.refused(replay.clone()).await.code, Code::DepsNotSatisfied);
    w.succeed(a).await;
    assert_eq!(w.refused(replay).await.code, Code::DepsNotSatisfied);
}

/// An edge that was staged into a member that is gone does not hold back whoever has its id.
pub async fn a_stranger_is_not_held_back(w: Arc<World>) {
    let flow = w.empty_flow().await;
    let [a, b] = w.members(flow).await;
    let edge = w.stage(flow, a, b).await.expect("both are members").edge_id;
    w.succeed(b).await;
    see(&w).await;
    w.succeed(a).await;
    w.seal(flow).await.expect("it is open");
    w.dispatch().await;
    w.pass(DAY);
    trim_seen(&w, flow, 1).await;
    w.replay(a).await.expect("it has ended");
    assert_eq!(code(w.apply(flow, edge).await), Code::ExecutionNotFound);
    stranger(&w, b).await;
    assert_eq!(code(w.apply(flow, edge).await), Code::ExecutionNotInFlow);
    assert_eq!(w.state(b).await, PublicState::Waiting);
}

/// A member of another flow is not let go by what its predecessor waited for.
pub async fn a_stranger_is_not_let_go(w: Arc<World>) {
    let drawn = w.sketch("a>b c").policy(&json!({"retention_ms": 0})).submit().await;
    for node in ["a", "b"] {
        w.succeed(drawn.id(node)).await;
        w.dispatch().await;
    }
    see(&w).await;
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    trim_seen(&w, drawn.flow, 2).await;
    let b = drawn.id("b");
    stranger(&w, b).await;
    let other = w.flow_beside(drawn.flow).await;
    w.add(other, b).await.expect("it is open");
    let first = w.member(other).await;
    w.link(other, first, b).await;
    assert_eq!(w.run(ReconcileGroup { flow: drawn.flow, downstream: b }).await, Ok(0));
    assert_eq!(w.state(b).await, PublicState::WaitingChildren);
}

/// A flow `a>z b>z` in which `a` was enough and `b` has ended, cancelled before its siblings were;
/// `a` and `b` are gone, and a stranger has the id of `b`.
async fn fired(w: &World) -> Drawn {
    let sketch = w.sketch("a>z b>z").join("z", any_of()).policy(&json!({"retention_ms": 0}));
    let drawn = sketch.submit().await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.run(cancellation(drawn.id("b"))).await.expect("it waits");
    see(w).await;
    w.cancel_flow(drawn.flow, CancellationPolicy::All).await.expect("it is open");
    w.dispatch().await;
    trim_seen(w, drawn.flow, 2).await;
    stranger(w, drawn.id("b")).await;
    drawn
}

/// Whoever has the id of a sibling that is gone is not cancelled in its place.
pub async fn a_stranger_is_not_cancelled(w: Arc<World>) {
    let drawn = fired(&w).await;
    let (cancelled, spared, already_terminal, not_found) = (0, 0, 0, 1);
    let done = SiblingsCancelled::Dispatched { cancelled, spared, already_terminal, not_found };
    let outcomes = w.tick(Duty::EdgeCancelDispatcher).await;
    assert_eq!(outcomes, [Ok(Reply::CancelSiblings(done))]);
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Waiting);
}

/// Nor does it keep the row of a group whose siblings are all gone.
pub async fn a_stranger_is_no_sibling(w: Arc<World>) {
    let drawn = fired(&w).await;
    let outcomes = w.tick(Duty::EdgeCancelReconciler).await;
    assert_eq!(outcomes, [Ok(Reply::ReconcileSiblings(SiblingsReconciled::CompletedDrain))]);
    assert_eq!(w.group(drawn.flow, drawn.id("z")).await.state.word(), GroupWord::Satisfied);
}
