//! Giving work back: release undoes a claim, delay interrupts an attempt.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::create::Create;
use ff_core::error::Code;
use ff_core::execution::{AttemptKind, Fence};
use ff_core::state::{AttemptState, BlockingReason, EligibilityState, PublicState};
use serde_json::json;

use super::calls::{progress, retrying};
use crate::world::{TTL_MS, World, code, worker};

/// On shutdown, unstarted work is as if it had never been claimed.
pub async fn releasing_undoes_the_claim(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(progress(id, fence, 1)).await.expect("it is held");
    assert_eq!(w.release(id, fence).await, Ok(()));
    let x = w.get(id).await;
    assert_eq!((x.counts.attempts, x.progress.clone()), (0, None));
    let vector = w.vector(id).await;
    assert_eq!(vector.attempt_state, AttemptState::PendingFirstAttempt);
    assert_eq!(vector.public_state, PublicState::Waiting);
    assert!(w.event_names(id).await.is_empty());
    assert!(w.attempts(id).await.is_empty());
    let leased = w.take_as(id, "w2").await.leased;
    assert_eq!(leased.kind, ClaimKind::First);
    let lease_epoch = fence.lease_epoch + 2;
    assert_eq!(leased.fence, Fence { attempt_index: 0, lease_epoch });
}

/// A released retry is still that retry, with what it knew.
pub async fn releasing_a_retry_leaves_a_retry(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    w.fail(id, fence).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.release(id, fence).await.expect("it is held");
    let leased = w.take(id).await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Retried, 1));
    let failure = w.active(id).await.attempt.after.expect("the failure before");
    assert_eq!(failure.reason, "it broke");
    assert_eq!(w.get(id).await.counts.retries, 1);
}

/// A released take-over is still a take-over, and is announced again.
pub async fn releasing_a_reclaim_leaves_a_reclaim(w: Arc<World>) {
    let (id, _) = w.running(json!({"max_reclaim_count": 1})).await;
    w.revoke(id).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.release(id, fence).await.expect("it is held");
    let leased = w.take(id).await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Reclaimed, 1));
    assert_eq!(w.get(id).await.counts.reclaims, 1);
    assert_eq!(w.attempts(id).await.len(), 1);
}

/// A released replay is still a replay.
pub async fn releasing_a_replay_leaves_a_replay(w: Arc<World>) {
    let id = w.finished(json!({})).await;
    w.replay(id).await.expect("it has ended");
    let fence = w.take(id).await.leased.fence;
    w.release(id, fence).await.expect("it is held");
    assert_eq!(w.vector(id).await.attempt_state, AttemptState::PendingReplayAttempt);
    let leased = w.take(id).await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Replayed, 1));
}

/// Undoing a claim of an interrupted attempt does not undo the attempt.
pub async fn releasing_a_resumed_attempt_keeps_the_attempt(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.delay(id, fence, w.now()).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.release(id, fence).await.expect("it is held");
    assert_eq!(w.get(id).await.counts.attempts, 1);
    let leased = w.take(id).await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Resumed, 0));
}

/// A repeat of a release is answered until the work is somebody else's.
pub async fn a_repeated_release_does_not_take_the_next_lease(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.release(id, fence).await.expect("it is held");
    assert_eq!(w.release(id, fence).await, Ok(()));
    w.take_as(id, "w2").await;
    assert_eq!(code(w.release(id, fence).await), Code::StaleLease);
    assert_eq!(w.active(id).await.attempt.worker, worker("w2"));
}

/// A delayed attempt waits, and it is the same attempt that goes on.
pub async fn delaying_keeps_the_attempt(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let began = w.now();
    let until = w.now().plus(5_000);
    assert_eq!(w.delay(id, fence, until).await, Ok(until));
    let vector = w.vector(id).await;
    assert_eq!(vector.public_state, PublicState::Delayed);
    assert_eq!(vector.eligibility_state, EligibilityState::NotEligibleUntilTime);
    assert_eq!(vector.blocking_reason, BlockingReason::WaitingForDelay);
    assert_eq!(vector.attempt_state, AttemptState::AttemptInterrupted);
    w.pass(5_000);
    let leased = w.take_as(id, "w2").await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Resumed, 0));
    let attempt = w.active(id).await.attempt;
    assert_eq!((attempt.kind, attempt.started_at), (AttemptKind::Initial, began));
    assert_eq!(attempt.worker, worker("w2"));
    assert_eq!(w.get(id).await.counts.attempts, 1);
    assert!(w.attempts(id).await.is_empty());
    assert!(w.event_names(id).await.is_empty());
}

/// A time that has passed means at once, not never.
pub async fn delaying_into_the_past_means_at_once(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.delay(id, fence, w.now().minus(5_000)).await.expect("it is held");
    assert_eq!(w.state(id).await, PublicState::Waiting);
    assert_eq!(w.take(id).await.leased.kind, ClaimKind::Resumed);
}

/// The delay and the deadline are two different times.
pub async fn delaying_does_not_move_the_deadline(w: Arc<World>) {
    let deadline_at = Some(w.now().plus(10_000));
    let id = w.create(Create { deadline_at, ..w.draft() }).await;
    let fence = w.take(id).await.leased.fence;
    w.delay(id, fence, w.now().plus(1_000)).await.expect("it is held");
    assert_eq!(w.get(id).await.deadline_at, deadline_at);
    w.pass(1_000);
    assert!(w.tick(Duty::Deadline).await.is_empty());
    w.take(id).await;
    w.pass(9_000);
    w.tick(Duty::Deadline).await;
    assert_eq!(w.state(id).await, PublicState::Expired);
}

/// The first delay counts; repeating it with another time is the repeat of a lost answer.
pub async fn a_repeated_delay_answers_with_the_first_time(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let until = w.now().plus(5_000);
    w.delay(id, fence, until).await.expect("it is held");
    assert_eq!(w.delay(id, fence, until.plus(9_000)).await, Ok(until));
    assert_eq!(w.promote().await, Some(until));
}

/// An interrupted attempt whose next worker dies is taken over as a new attempt.
pub async fn a_resumed_attempt_can_be_lost_like_any_other(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.delay(id, fence, w.now()).await.expect("it is held");
    w.take(id).await;
    w.pass(TTL_MS.cast_signed());
    w.tick(Duty::LeaseExpiry).await;
    let leased = w.take(id).await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Reclaimed, 1));
    assert_eq!(w.attempts(id).await.len(), 1);
}
