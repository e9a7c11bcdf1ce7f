//! Fences: a worker that lost its lease can never write, and learns how it lost it.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::create::Create;
use ff_core::error::{Class, Code};
use ff_core::execution::Fence;
use ff_core::state::{PublicState, TerminalOutcome};
use ff_core::{ExecutionId, Policy};
use serde_json::json;

use super::calls::{retrying, worker_calls};
use crate::world::{TTL_MS, World, code, worker};

const TTL: i64 = TTL_MS.cast_signed();

/// Every worker call with `fence` is refused with `expected` and changes nothing.
async fn all_refused(w: &World, id: ExecutionId, fence: Fence, expected: Code) {
    let before = w.rows();
    for call in worker_calls(id, fence) {
        let name = call.name();
        let refused = w.send(call).await.expect_err(name);
        assert_eq!(refused.code, expected, "{name}: {refused}");
        assert!(!refused.code.retryable(), "{name}: a worker must stop");
    }
    assert_eq!(w.rows(), before);
}

/// A worker whose lease ran out hears so until somebody else has the work, or it has ended.
pub async fn a_worker_learns_that_its_lease_ran_out(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(TTL);
    all_refused(&w, id, fence, Code::LeaseExpired).await;
    w.tick(Duty::LeaseExpiry).await;
    all_refused(&w, id, fence, Code::LeaseExpired).await;
    let second = w.take_as(id, "w2").await.leased.fence;
    all_refused(&w, id, fence, Code::StaleLease).await;
    assert_eq!(w.complete(id, second).await, Ok(()));
    all_refused(&w, id, fence, Code::ExecutionNotActive).await;
}

/// A worker whose lease was taken away hears that instead.
pub async fn a_worker_learns_that_its_lease_was_revoked(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.revoke(id).await.expect("it is held");
    all_refused(&w, id, fence, Code::LeaseRevoked).await;
    w.take_as(id, "w2").await;
    all_refused(&w, id, fence, Code::StaleLease).await;
}

/// The answers on which a worker stops are of one class, so that it needs no list of codes.
pub async fn lost_leases_are_a_state_not_a_contention(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(TTL);
    let refused = w.renew(id, fence).await.expect_err("it ran out");
    assert_eq!(refused.code.class(), Class::State);
    w.cancel(id).await.expect("it is not over");
    let refused = w.renew(id, fence).await.expect_err("it has ended");
    assert_eq!(refused.code, Code::ExecutionNotActive);
    assert_eq!(refused.code.class(), Class::State);
    let standing = refused.standing.expect("it says where it stands");
    assert_eq!(standing.outcome, Some(TerminalOutcome::Cancelled));
}

/// An earlier attempt cannot speak for a later one.
pub async fn a_fence_of_an_earlier_attempt_is_stale(w: Arc<World>) {
    let (id, first) = w.running(retrying(1, 0)).await;
    w.fail(id, first).await.expect("it is held");
    let second = w.take_as(id, "w2").await.leased.fence;
    all_refused(&w, id, first, Code::StaleLease).await;
    assert_eq!(w.renew(id, second).await, Ok(w.now().plus(TTL_MS)));
}

/// An earlier lease of the same attempt cannot speak for a later one.
pub async fn a_fence_of_an_earlier_lease_of_one_attempt_is_stale(w: Arc<World>) {
    let (id, first) = w.running(json!({})).await;
    w.delay(id, first, w.now()).await.expect("it is held");
    let second = w.take_as(id, "w2").await.leased.fence;
    assert_eq!(second.attempt_index, first.attempt_index);
    all_refused(&w, id, first, Code::StaleLease).await;
    assert_eq!(w.active(id).await.attempt.worker, worker("w2"));
}

/// Both halves of the fence count.
pub async fn half_a_fence_is_stale(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let (attempt_index, lease_epoch) = (fence.attempt_index + 1, fence.lease_epoch + 2);
    all_refused(&w, id, Fence { attempt_index, ..fence }, Code::StaleLease).await;
    all_refused(&w, id, Fence { lease_epoch, ..fence }, Code::StaleLease).await;
    assert_eq!(w.complete(id, fence).await, Ok(()));
}

/// Numbers at the end of their range are numbers like others.
pub async fn a_fence_at_the_end_of_its_range_is_stale(w: Arc<World>) {
    let waiting = w.create_with(json!({"routing_requirements": {"required_capabilities": ["x"]}}));
    let waiting = waiting.await;
    let (held, _) = w.running(json!({})).await;
    let attempt_index = u32::MAX;
    for lease_epoch in [u64::MAX, 0, i64::MAX.cast_unsigned()] {
        let fence = Fence { attempt_index, lease_epoch };
        all_refused(&w, held, fence, Code::StaleLease).await;
        all_refused(&w, waiting, fence, Code::StaleLease).await;
    }
}

/// Nobody can act on what was never handed out.
pub async fn no_fence_fits_what_was_never_claimed(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let epoch = w.get(id).await.epoch;
    for lease_epoch in [0, 1, epoch - 1, epoch, epoch + 1] {
        let attempt_index = 0;
        let fence = Fence { attempt_index, lease_epoch };
        all_refused(&w, id, fence, Code::StaleLease).await;
    }
}

/// A worker that gave its work back does not hold it any more.
pub async fn giving_back_ends_the_lease(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.release(id, fence).await.expect("it is held");
    for call in worker_calls(id, fence) {
        match call.name() {
            "release_execution" => assert!(w.send(call).await.is_ok()),
            name => assert_eq!(code(w.send(call).await), Code::ExecutionNotActive, "{name}"),
        }
    }
    assert_eq!(w.state(id).await, PublicState::Waiting);
}

/// Running it again does not give the old worker its say back.
pub async fn a_replay_does_not_revive_an_old_fence(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.complete(id, fence).await.expect("it is held");
    w.replay(id).await.expect("it has ended");
    all_refused(&w, id, fence, Code::StaleLease).await;
    w.take(id).await;
    all_refused(&w, id, fence, Code::StaleLease).await;
}

/// The same worker process has no privilege over its earlier self.
pub async fn the_same_worker_needs_its_new_fence(w: Arc<World>) {
    let (id, first) = w.running(json!({})).await;
    w.pass(TTL);
    w.tick(Duty::LeaseExpiry).await;
    let second = w.take(id).await.leased.fence;
    all_refused(&w, id, first, Code::StaleLease).await;
    assert_eq!(w.complete(id, second).await, Ok(()));
}

/// An id that retention set free begins a new life, in which nobody of the old one has a say.
pub async fn a_worker_of_an_earlier_life_cannot_write_in_the_next(w: Arc<World>) {
    let policy = Policy::parse(&json!({"retention_ms": 0})).expect("a valid policy");
    let draft = Create { policy, ..w.draft() };
    let id = w.create(draft.clone()).await;
    let old = w.take(id).await.leased.fence;
    w.cancel(id).await.expect("it is held");
    w.pass(1);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(Reply::Trim(true))]);
    w.create(draft).await;
    all_refused(&w, id, old, Code::StaleLease).await;
    let new = w.take_as(id, "w2").await.leased.fence;
    assert_eq!(new.attempt_index, old.attempt_index);
    all_refused(&w, id, old, Code::StaleLease).await;
    assert_eq!(w.renew(id, new).await, Ok(w.now().plus(TTL_MS)));
    assert_eq!(w.complete(id, new).await, Ok(()));
    all_refused(&w, id, old, Code::ExecutionNotActive).await;
}
