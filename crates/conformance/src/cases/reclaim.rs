//! Taking over after a lost lease, as often as the policy allows.

use std::sync::Arc;

use ff_core::backend::{Due, Duty};
use ff_core::command::Reply;
use ff_core::decide::Lost;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::lease_expiry::LeaseChecked;
use ff_core::event::EventKind;
use ff_core::execution::{AttemptKind, AttemptOutcome, Ending};
use ff_core::limits::RECLAIMS_DEFAULT;
use ff_core::state::{AttemptState, PublicState, TerminalOutcome};
use ff_core::{ExecutionId, Outcome};
use serde_json::json;

use super::calls::retrying;
use crate::world::{TTL_MS, World, worker};

const TTL: i64 = TTL_MS.cast_signed();

/// Claims it and lets the lease run out.
async fn lose(w: &World, id: ExecutionId) -> Vec<Outcome> {
    w.take(id).await;
    w.pass(TTL);
    w.tick(Duty::LeaseExpiry).await
}

fn lost(how: Lost) -> [Outcome; 1] {
    [Ok(Reply::ExpireLease(LeaseChecked::Expired(how)))]
}

/// Another worker goes on, as a new attempt, and history keeps the old one.
pub async fn another_worker_takes_over(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    assert_eq!(lose(&w, id).await, lost(Lost::Requeued));
    let ended = w.now();
    w.pass(5);
    let leased = w.take_as(id, "w2").await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Reclaimed, 1));
    assert_eq!(w.active(id).await.attempt.kind, AttemptKind::Reclaim);
    let kept = w.attempts(id).await;
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].index, kept[0].outcome), (0, AttemptOutcome::Interrupted));
    assert_eq!((&kept[0].worker, kept[0].ended_at), (&worker("w1"), ended));
    let events = w.events(id).await;
    let reclaimed = EventKind::LeaseReclaimed { attempt_index: 1, worker: worker("w2") };
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].kind, reclaimed);
}

/// The count is right from the moment of the loss, not from the next claim.
pub async fn a_reclaim_is_counted_when_the_lease_is_lost(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    lose(&w, id).await;
    assert_eq!(w.get(id).await.counts.reclaims, 1);
    w.take(id).await;
    assert_eq!(w.get(id).await.counts.reclaims, 1);
}

/// Work that kills its workers is stopped, announced, and readable in every dimension.
pub async fn lost_too_often_it_fails(w: Arc<World>) {
    let id = w.create_with(json!({"max_reclaim_count": 1})).await;
    assert_eq!(lose(&w, id).await, lost(Lost::Requeued));
    assert_eq!(lose(&w, id).await, lost(Lost::ReclaimsExhausted));
    let vector = w.vector(id).await;
    assert_eq!(vector.public_state, PublicState::Failed);
    assert_eq!(vector.terminal_outcome, Some(TerminalOutcome::Failed));
    assert_eq!(vector.attempt_state, AttemptState::AttemptTerminal);
    let Ending::Failed(failure) = w.ending(id).await.ending else {
        panic!("it failed");
    };
    assert_eq!(failure.reason, "max_reclaims_exceeded");
    let names = w.event_names(id).await;
    assert_eq!(names, ["lease_expired", "lease_reclaimed", "lease_expired", "completion"]);
    assert!(w.claim_one().await.is_none());
}

/// The default is one number, the same for everybody.
pub async fn the_default_cap_is_a_hundred(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    for _ in 0..RECLAIMS_DEFAULT {
        assert_eq!(lose(&w, id).await, lost(Lost::Requeued));
    }
    assert_eq!(w.get(id).await.counts.reclaims, 100);
    assert_eq!(lose(&w, id).await, lost(Lost::ReclaimsExhausted));
}

/// A lost lease uses up no retry, and a failure no reclaim.
pub async fn retries_and_reclaims_are_counted_apart(w: Arc<World>) {
    let id = w.create_with(retrying(1, 0)).await;
    lose(&w, id).await;
    let fence = w.take(id).await.leased.fence;
    w.fail(id, fence).await.expect("it is held");
    lose(&w, id).await;
    let counts = w.get(id).await.counts;
    assert_eq!((counts.attempts, counts.retries, counts.reclaims), (3, 1, 2));
    assert_eq!(w.state(id).await, PublicState::Waiting);
}

/// What is left of the old lease does not throw the new holder out.
pub async fn the_old_lease_does_not_haunt_the_new_holder(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    lose(&w, id).await;
    let leased = w.take_as(id, "w2").await.leased;
    w.pass(TTL - 1);
    let next = Some(leased.lease_until);
    let commands = Vec::new();
    assert_eq!(w.due(Duty::LeaseExpiry, 10).await, Due { commands, next });
    w.tick_all().await;
    assert_eq!(w.active(id).await.attempt.worker, worker("w2"));
    assert_eq!(w.complete(id, leased.fence).await, Ok(()));
}

/// Who renews in time keeps the work, whatever anyone had planned.
pub async fn a_renewed_lease_is_not_taken_over(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(TTL - 1);
    w.renew(id, fence).await.expect("it is held");
    w.pass(1);
    w.tick(Duty::LeaseExpiry).await;
    assert!(w.claim_one().await.is_none());
    assert_eq!(w.get(id).await.counts.reclaims, 0);
    assert_eq!(w.complete(id, fence).await, Ok(()));
}

/// Without any reclaim allowed, the first loss is the end.
pub async fn a_cap_of_zero_fails_at_the_first_loss(w: Arc<World>) {
    let id = w.create_with(json!({"max_reclaim_count": 0})).await;
    assert_eq!(lose(&w, id).await, lost(Lost::ReclaimsExhausted));
    assert_eq!(w.get(id).await.counts.attempts, 1);
    assert_eq!(w.event_names(id).await, ["lease_expired", "completion"]);
}

/// Replaying gives the work its reclaims back.
pub async fn a_replay_counts_reclaims_from_zero(w: Arc<World>) {
    let id = w.create_with(json!({"max_reclaim_count": 1})).await;
    lose(&w, id).await;
    lose(&w, id).await;
    w.replay(id).await.expect("it has failed");
    assert_eq!(w.get(id).await.counts.reclaims, 0);
    assert_eq!(lose(&w, id).await, lost(Lost::Requeued));
}
