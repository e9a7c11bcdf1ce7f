//! Waiting for children: a running member gives its lease back until what it added is decided.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::wait_children::{WaitChildren, Waiting};
use ff_core::error::Code;
use ff_core::execution::{Fence, LeaseEnd, Next};
use ff_core::flow::{EdgePolicy, EdgeWord, GroupWord, NodeRef, OnImpossible, OnSatisfied};
use ff_core::state::{AttemptState, PublicState};
use ff_core::{ExecutionId, FlowId, State};
use serde_json::json;

use crate::world::{Drawn, World, any_let_run, any_of, code, name, quorum};

/// Has `parent` wait for new nodes, joined by `policy`.
async fn spawn(
    w: &World,
    flow: FlowId,
    (parent, fence): (ExecutionId, Fence),
    children: &[&str],
    policy: EdgePolicy,
) {
    let mut more = w.more(flow, &children.join(" "));
    for child in children {
        more = more.between(NodeRef::Name(name(child)), NodeRef::Execution(parent));
    }
    let more = more.with(|s| s.graph.joins.push((NodeRef::Execution(parent), policy)));
    more.extend_as(parent, fence).await.expect("it runs");
}

/// A flow of one, running.
async fn parent(w: &World) -> (Drawn, ExecutionId, Fence) {
    let drawn = w.sketch("p").submit().await;
    let id = drawn.id("p");
    let fence = w.start(id).await;
    (drawn, id, fence)
}

/// The lease is given back; when the children are done the same attempt goes on.
pub async fn waiting_gives_the_lease_back_and_resumes(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    spawn(&w, drawn.flow, (p, fence), &["a", "b"], EdgePolicy::AllOf).await;
    w.pass(10);
    assert_eq!(w.wait_children(drawn.flow, p, fence).await, Ok(Waiting::Waiting));
    let vector = w.vector(p).await;
    assert_eq!(vector.public_state, PublicState::WaitingChildren);
    assert_eq!(vector.attempt_state, AttemptState::AttemptInterrupted);
    assert_eq!(w.get(p).await.epoch, fence.lease_epoch + 1);
    assert!(w.events(p).await.is_empty(), "giving back is no loss");
    assert_eq!(w.take_ids(10).await.len(), 2);
    for child in drawn.ids(["a", "b"]) {
        let held = w.get(child).await.fence();
        w.complete(child, held).await.expect("it is held");
    }
    assert!(w.claim_one().await.is_none());
    w.dispatch().await;
    let leased = w.take_as(p, "w2").await.leased;
    assert_eq!(leased.kind, ClaimKind::Resumed);
    assert_eq!(leased.fence.attempt_index, fence.attempt_index);
    assert_eq!(leased.fence.lease_epoch, fence.lease_epoch + 2);
    assert_eq!(w.get(p).await.counts.attempts, 1);
    assert_eq!(w.active(p).await.attempt.ran_ms, 10, "waiting is not running");
    assert_eq!(w.complete(p, leased.fence).await, Ok(()));
}

/// Who has nothing to wait for keeps its lease.
pub async fn there_may_be_nothing_to_wait_for(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    assert_eq!(w.wait_children(drawn.flow, p, fence).await, Ok(Waiting::Ready));
    spawn(&w, drawn.flow, (p, fence), &["a"], EdgePolicy::AllOf).await;
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let before = w.rows();
    assert_eq!(w.wait_children(drawn.flow, p, fence).await, Ok(Waiting::Ready));
    assert_eq!(w.rows(), before);
    assert!(w.renew(p, fence).await.is_ok());
    let solo = w.create(w.draft()).await;
    let fence = w.start(solo).await;
    assert_eq!(w.wait_children(drawn.flow, solo, fence).await, Ok(Waiting::Ready));
}

/// Children that are done but not dispatched are waited for: the flow does not know yet.
pub async fn an_end_counts_when_it_is_dispatched(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    spawn(&w, drawn.flow, (p, fence), &["a"], EdgePolicy::AllOf).await;
    w.succeed(drawn.id("a")).await;
    assert_eq!(w.wait_children(drawn.flow, p, fence).await, Ok(Waiting::Waiting));
    w.dispatch().await;
    w.take(p).await;
}

/// The answer to a call that was lost is given again; what happened since is told.
pub async fn waiting_twice_is_waiting_once(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    let flow = drawn.flow;
    spawn(&w, flow, (p, fence), &["a"], EdgePolicy::AllOf).await;
    w.wait_children(flow, p, fence).await.expect("it is held");
    let before = w.rows();
    assert_eq!(w.wait_children(flow, p, fence).await, Ok(Waiting::Waiting));
    assert_eq!(w.rows(), before);
    assert_eq!(code(w.complete(p, fence).await), Code::ExecutionNotActive);
    assert_eq!(code(w.renew(p, fence).await), Code::ExecutionNotActive);
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let fresh = w.start(p).await;
    assert_eq!(code(w.wait_children(flow, p, fence).await), Code::StaleLease);
    assert_eq!(w.wait_children(flow, p, fresh).await, Ok(Waiting::Ready));
}

/// Only who holds the member gives it back.
pub async fn a_stale_worker_cannot_wait(w: Arc<World>) {
    let (drawn, id, fence) = parent(&w).await;
    let flow = drawn.flow;
    spawn(&w, flow, (id, fence), &["a"], EdgePolicy::AllOf).await;
    w.revoke(id).await.expect("it is held");
    let wait = WaitChildren { id, flow, fence };
    assert_eq!(w.refused(wait).await.code, Code::LeaseRevoked);
    let fresh = w.start(id).await;
    assert_eq!(w.refused(wait).await.code, Code::StaleLease);
    w.pass(30_000);
    let late = WaitChildren { fence: fresh, ..wait };
    assert_eq!(w.refused(late).await.code, Code::LeaseExpired);
    let nobody = WaitChildren { id: drawn.id("nobody"), ..wait };
    assert_eq!(w.refused(nobody).await.code, Code::ExecutionNotFound);
}

/// A member may wait again and again, each time for something new.
pub async fn a_member_waits_in_several_rounds(w: Arc<World>) {
    let (drawn, p, mut fence) = parent(&w).await;
    let flow = drawn.flow;
    for (round, child) in ["a", "b", "c"].into_iter().enumerate() {
        spawn(&w, flow, (p, fence), &[child], EdgePolicy::AllOf).await;
        let group = w.group(flow, p).await;
        assert_eq!(group.round, u32::try_from(round).expect("a small count"));
        assert_eq!((group.state.word(), group.staged), (GroupWord::Pending, 1));
        assert_eq!(w.wait_children(flow, p, fence).await, Ok(Waiting::Waiting));
        w.succeed(drawn.id(child)).await;
        w.dispatch().await;
        fence = w.start(p).await;
    }
    assert_eq!(w.get(p).await.counts.attempts, 1);
    w.complete(p, fence).await.expect("it is held");
}

/// A race: the first child lets its parent go on, and the others are cancelled.
pub async fn a_member_may_wait_for_the_first(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    let flow = drawn.flow;
    spawn(&w, flow, (p, fence), &["a", "b", "c"], any_of()).await;
    w.wait_children(flow, p, fence).await.expect("it is held");
    w.succeed(drawn.id("b")).await;
    w.dispatch().await;
    w.start(p).await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    for child in drawn.ids(["a", "c"]) {
        assert_eq!(w.state(child).await, PublicState::Cancelled);
    }
    w.dispatch().await;
    assert_eq!(w.state(p).await, PublicState::Active, "late ends move counters only");
}

/// A straggler of an earlier round does not count in the next.
pub async fn a_straggler_does_not_count_in_the_next_round(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    let flow = drawn.flow;
    spawn(&w, flow, (p, fence), &["a", "b"], any_let_run()).await;
    w.wait_children(flow, p, fence).await.expect("it is held");
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let fence = w.start(p).await;
    spawn(&w, flow, (p, fence), &["c", "d"], quorum(2)).await;
    w.wait_children(flow, p, fence).await.expect("it is held");
    w.fail_for_good(drawn.id("b")).await;
    w.dispatch().await;
    assert_eq!(w.counted(flow, p).await, [2, 0, 0, 0]);
    assert_eq!(w.edge(flow, drawn.id("b"), p).await.state.word(), EdgeWord::Impossible);
    assert_eq!(w.state(p).await, PublicState::WaitingChildren);
    for child in drawn.ids(["c", "d"]) {
        w.succeed(child).await;
    }
    w.dispatch().await;
    assert_eq!(w.state(p).await, PublicState::Waiting);
}

/// A parent for which the first of two was enough, and that began to race two more.
async fn two_rounds(w: &World) -> (Drawn, ExecutionId, Fence) {
    let (drawn, p, fence) = parent(w).await;
    spawn(w, drawn.flow, (p, fence), &["a", "b"], any_of()).await;
    w.wait_children(drawn.flow, p, fence).await.expect("it is held");
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let fence = w.start(p).await;
    spawn(w, drawn.flow, (p, fence), &["c", "d"], any_of()).await;
    (drawn, p, fence)
}

/// Siblings of an earlier round are cancelled even when the next one has begun; its own are not.
pub async fn siblings_of_an_earlier_round_are_still_cancelled(w: Arc<World>) {
    let (drawn, p, fence) = two_rounds(&w).await;
    let flow = drawn.flow;
    w.tick(Duty::EdgeCancelDispatcher).await;
    assert_eq!(w.state(drawn.id("b")).await, PublicState::Cancelled);
    for child in drawn.ids(["c", "d"]) {
        assert_eq!(w.state(child).await, PublicState::Waiting);
    }
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    assert_eq!(w.state(drawn.id("d")).await, PublicState::Cancelled);
    assert_eq!(w.wait_children(flow, p, fence).await, Ok(Waiting::Ready));
}

/// A parent whose children failed is skipped, waiting or not.
pub async fn a_parent_is_skipped_when_its_children_fail(w: Arc<World>) {
    for waits in [true, false] {
        let (drawn, p, fence) = parent(&w).await;
        spawn(&w, drawn.flow, (p, fence), &["a", "b"], EdgePolicy::AllOf).await;
        if waits {
            w.wait_children(drawn.flow, p, fence).await.expect("it is held");
        }
        w.fail_for_good(drawn.id("a")).await;
        w.dispatch().await;
        assert_eq!(w.state(p).await, PublicState::Skipped);
        assert_eq!(w.vector(p).await.attempt_state, AttemptState::AttemptTerminal);
        let expected: &[&str] =
            if waits { &["completion"] } else { &["lease_revoked", "completion"] };
        assert_eq!(w.event_names(p).await, expected);
        assert_eq!(code(w.wait_children(drawn.flow, p, fence).await), Code::ExecutionNotActive);
        w.cancel(drawn.id("b")).await.expect("it waits");
    }
}

/// A parent that says so goes on when its children failed, and sees how.
pub async fn a_parent_may_go_on_when_its_children_fail(w: Arc<World>) {
    let policy = EdgePolicy::Quorum {
        k: 2,
        on_satisfied: OnSatisfied::LetRun,
        on_impossible: OnImpossible::Run,
    };
    let (drawn, p, fence) = parent(&w).await;
    spawn(&w, drawn.flow, (p, fence), &["a", "b"], policy).await;
    w.wait_children(drawn.flow, p, fence).await.expect("it is held");
    w.fail_for_good(drawn.id("a")).await;
    w.dispatch().await;
    let leased = w.claim_by_name(p).await.expect("it goes on");
    assert_eq!(leased.kind, ClaimKind::Resumed);
    assert_eq!(w.group(drawn.flow, p).await.state.word(), GroupWord::Impossible);
    spawn(&w, drawn.flow, (p, leased.fence), &["c"], EdgePolicy::AllOf).await;
    assert_eq!(w.group(drawn.flow, p).await.round, 1, "it may wait again");
}

/// A lease lost before the wait leaves the work to the next worker, who waits for the same.
pub async fn the_next_worker_waits_for_the_same(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    let flow = drawn.flow;
    spawn(&w, flow, (p, fence), &["a"], EdgePolicy::AllOf).await;
    w.pass(30_000);
    w.tick(Duty::LeaseExpiry).await;
    assert_eq!(w.state(p).await, PublicState::Waiting, "it may take over at once");
    let leased = w.claim_by_name(p).await.expect("it waits");
    assert_eq!(leased.kind, ClaimKind::Reclaimed);
    spawn(&w, flow, (p, leased.fence), &["a"], EdgePolicy::AllOf).await;
    assert_eq!(w.group(flow, p).await.staged, 1, "it was there already");
    assert_eq!(w.wait_children(flow, p, leased.fence).await, Ok(Waiting::Waiting));
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.take(p).await;
}

/// A worker that begins anew tells again of every round there was, and nothing changes.
pub async fn earlier_rounds_may_be_told_again(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    let flow = drawn.flow;
    spawn(&w, flow, (p, fence), &["a", "b"], any_let_run()).await;
    w.wait_children(flow, p, fence).await.expect("it is held");
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    let fence = w.start(p).await;
    spawn(&w, flow, (p, fence), &["c", "d"], EdgePolicy::AllOf).await;
    w.revoke(p).await.expect("it is held");
    let fence = w.start(p).await;
    let before = w.rows();
    spawn(&w, flow, (p, fence), &["a", "b"], any_let_run()).await;
    spawn(&w, flow, (p, fence), &["c", "d"], EdgePolicy::AllOf).await;
    assert_eq!(w.rows(), before);
    assert_eq!(w.wait_children(flow, p, fence).await, Ok(Waiting::Waiting));
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    assert_eq!(w.state(p).await, PublicState::WaitingChildren);
    w.succeed(drawn.id("d")).await;
    w.dispatch().await;
    w.start(p).await;
}

/// A round may ask for the same as the one before it.
pub async fn a_round_may_have_the_rule_of_the_one_before(w: Arc<World>) {
    let (drawn, p, mut fence) = parent(&w).await;
    for children in [["a", "b"], ["c", "d"], ["e", "f"]] {
        spawn(&w, drawn.flow, (p, fence), &children, any_let_run()).await;
        assert_eq!(w.group(drawn.flow, p).await.policy, any_let_run());
        w.wait_children(drawn.flow, p, fence).await.expect("it is held");
        w.succeed(drawn.id(children[1])).await;
        w.dispatch().await;
        fence = w.start(p).await;
    }
}

/// An attempt does not run out of time while it waits.
pub async fn waiting_does_not_use_up_the_attempt(w: Arc<World>) {
    let policy = json!({"timeout_policy": {"attempt_timeout_ms": 1_000}});
    let drawn = w.sketch("p").policy(&policy).submit().await;
    let (flow, p) = (drawn.flow, drawn.id("p"));
    let fence = w.start(p).await;
    spawn(&w, flow, (p, fence), &["a"], EdgePolicy::AllOf).await;
    w.pass(400);
    w.wait_children(flow, p, fence).await.expect("it is held");
    w.pass(5_000);
    assert!(w.tick(Duty::AttemptTimeout).await.is_empty());
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    w.start(p).await;
    assert_eq!(w.active(p).await.timeout_at, Some(w.now().plus(600)));
}

/// What waits for its children may be cancelled, held or expire like anything else.
pub async fn a_waiting_parent_may_be_cancelled(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    spawn(&w, drawn.flow, (p, fence), &["a"], EdgePolicy::AllOf).await;
    w.wait_children(drawn.flow, p, fence).await.expect("it is held");
    w.cancel(p).await.expect("it waits");
    assert_eq!(w.ending(p).await.last_lease, Some(LeaseEnd::Waiting));
    assert_eq!(w.ending(p).await.attempt.map(|attempt| attempt.index), Some(0));
    w.succeed(drawn.id("a")).await;
    w.dispatch().await;
    assert_eq!(w.state(p).await, PublicState::Cancelled);
    assert_eq!(w.flow(drawn.flow).await.ended.total(), 2);
}

/// The attempt that waits is kept on the execution, with the worker that had it.
pub async fn a_waiting_parent_keeps_its_attempt(w: Arc<World>) {
    let (drawn, p, fence) = parent(&w).await;
    spawn(&w, drawn.flow, (p, fence), &["a"], EdgePolicy::AllOf).await;
    w.wait_children(drawn.flow, p, fence).await.expect("it is held");
    let x = w.get(p).await;
    let State::Runnable(runnable) = &x.state else { panic!("it waits: {:?}", x.state) };
    assert!(runnable.gated && runnable.wait.is_none());
    assert_eq!(runnable.last_lease, Some(LeaseEnd::Waiting));
    let Next::Resume(attempt) = &runnable.next else { panic!("it goes on: {runnable:?}") };
    assert_eq!((attempt.index, &attempt.worker), (0, &crate::world::worker("w1")));
    assert!(w.attempts(p).await.is_empty());
}

/// Two rounds may fire before anybody cancels the siblings of the first: then those of both are.
pub async fn two_rounds_may_fire_before_siblings_are_cancelled(w: Arc<World>) {
    let (drawn, _, _) = two_rounds(&w).await;
    w.succeed(drawn.id("c")).await;
    w.dispatch().await;
    w.tick(Duty::EdgeCancelDispatcher).await;
    for child in drawn.ids(["b", "d"]) {
        assert_eq!(w.state(child).await, PublicState::Cancelled);
    }
}
