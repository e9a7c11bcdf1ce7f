//! Taking over after a lost lease, as often as the policy allows.

use std::sync::Arc;

use ff_core::backend::{Due, Duty};
use ff_core::command::Reply;
use ff_core::decide::Lost;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::lease_expiry::LeaseChecked;
use ff_core::event::EventKind;
use ff_core::execution::{AttemptKind, AttemptOutcome, Ending, Fence, State};
use ff_core::limits::RECLAIMS_DEFAULT;
use ff_core::state::{
    AttemptState, BlockingReason, EligibilityState, PublicState, TerminalOutcome,
};
use ff_core::{ExecutionId, Outcome};
use serde_json::json;

use super::calls::{progress, retrying};
use crate::world::{TTL_MS, World, worker};

const TTL: i64 = TTL_MS.cast_signed();

/// Claims it, as soon as it may be, and lets the lease run out.
async fn lose(w: &World, id: ExecutionId) -> Vec<Outcome> {
    take_when_due(w, id).await;
    lapse(w).await
}

async fn take_when_due(w: &World, id: ExecutionId) -> Fence {
    w.pass(paused_ms(w, id).await);
    w.take(id).await.leased.fence
}

async fn lapse(w: &World) -> Vec<Outcome> {
    w.pass(TTL);
    w.tick(Duty::LeaseExpiry).await
}

/// How long it is not claimable from now on.
async fn paused_ms(w: &World, id: ExecutionId) -> i64 {
    match &w.get(id).await.state {
        State::Runnable(runnable) => runnable.wait.map_or(0, |wait| wait.until.0 - w.now().0),
        other => panic!("{id} is {other:?}"),
    }
}

/// Leases lost in a row, and how long it is not claimable from now on.
async fn row(w: &World, id: ExecutionId) -> (u32, i64) {
    (w.get(id).await.counts.reclaims, paused_ms(w, id).await)
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

/// A lost lease uses up no retry. An attempt that came to an end of its own ends the row of lost
/// leases.
pub async fn retries_and_reclaims_are_counted_apart(w: Arc<World>) {
    let id = w.create_with(retrying(1, 0)).await;
    lose(&w, id).await;
    lose(&w, id).await;
    assert_eq!(row(&w, id).await, (2, 1_000));
    let fence = take_when_due(&w, id).await;
    w.fail(id, fence).await.expect("it is held");
    let counts = w.get(id).await.counts;
    assert_eq!((counts.attempts, counts.retries, counts.reclaims), (3, 1, 0));
    lose(&w, id).await;
    assert_eq!(row(&w, id).await, (1, 0));
    assert_eq!(w.state(id).await, PublicState::Waiting);
}

/// What kills its workers is taken over ever more seldom: at once the first time, then after a pause
/// that doubles, and is a minute at most.
pub async fn lost_in_a_row_it_waits_longer_each_time(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    for seconds in [0, 1, 2, 4, 8, 16, 32, 60, 60] {
        lose(&w, id).await;
        let events = w.events(id).await;
        let last = events.last().map(|event| event.kind.clone());
        let Some(EventKind::LeaseExpired { retry_at, .. }) = last else { panic!("{last:?}") };
        let until = w.now().plus(seconds * 1_000);
        assert_eq!(retry_at, (seconds > 0).then_some(until), "{:?}", w.get(id).await.counts);
    }
    let vector = w.vector(id).await;
    assert_eq!(vector.public_state, PublicState::Delayed);
    assert_eq!(vector.eligibility_state, EligibilityState::NotEligibleUntilTime);
    assert_eq!(vector.blocking_reason, BlockingReason::WaitingForReclaimBackoff);
    assert_eq!(vector.attempt_state, AttemptState::PendingReclaimAttempt);
    let detail = vector.blocking_detail.expect("it says what it waits for");
    assert!(detail.starts_with("lost 9 leases in a row"), "{detail}");
    w.pass(59_999);
    assert!(w.claim_one().await.is_none());
    w.pass(1);
    assert_eq!(w.state(id).await, PublicState::Waiting);
    let leased = w.take_as(id, "w2").await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Reclaimed, 9));
}

/// Work that records a step before each crash gets somewhere: it is never given up, and never waits.
pub async fn a_step_ends_the_row_of_lost_leases(w: Arc<World>) {
    let id = w.create_with(json!({"max_reclaim_count": 2})).await;
    for number in 0..4 {
        assert_eq!(lose(&w, id).await, lost(Lost::Requeued));
        let fence = take_when_due(&w, id).await;
        w.run(super::steps::record(id, fence, &[(number, "part")])).await.expect("it is held");
        assert_eq!(lapse(&w).await, lost(Lost::Requeued));
        assert_eq!(row(&w, id).await, (1, 0), "the loss after the step is the first");
    }
    lose(&w, id).await;
    assert_eq!(row(&w, id).await, (2, 1_000), "steps of earlier attempts are no progress");
    assert_eq!(lose(&w, id).await, lost(Lost::ReclaimsExhausted));
}

/// A report of progress does not: it records nothing that the next attempt goes on from.
pub async fn a_report_of_progress_goes_on_with_the_row_of_lost_leases(w: Arc<World>) {
    let id = w.create_with(json!({"max_reclaim_count": 2})).await;
    for (lost_so_far, pause_ms) in [(1, 0), (2, 1_000)] {
        let fence = take_when_due(&w, id).await;
        w.run(progress(id, fence, 5)).await.expect("it is held");
        assert_eq!(lapse(&w).await, lost(Lost::Requeued));
        assert_eq!(row(&w, id).await, (lost_so_far, pause_ms));
    }
    let fence = take_when_due(&w, id).await;
    w.run(progress(id, fence, 5)).await.expect("it is held");
    assert_eq!(lapse(&w).await, lost(Lost::ReclaimsExhausted));
}

/// A pause that is over ends the row: a delay or a suspension.
pub async fn a_pause_ends_the_row_of_lost_leases(w: Arc<World>) {
    let id = w.create_with(json!({"max_reclaim_count": 1})).await;
    lose(&w, id).await;
    let fence = take_when_due(&w, id).await;
    w.delay(id, fence, w.now().plus(5)).await.expect("it is held");
    w.pass(5);
    assert_eq!(lose(&w, id).await, lost(Lost::Requeued));
    assert_eq!(row(&w, id).await, (1, 0));
    let fence = take_when_due(&w, id).await;
    let mailbox = w.suspend(w.pause(id, fence)).await.remove(0);
    w.deliver(mailbox.signal(&w, "go")).await;
    assert_eq!(lose(&w, id).await, lost(Lost::Requeued));
    assert_eq!(row(&w, id).await, (1, 0));
    assert_eq!(lose(&w, id).await, lost(Lost::ReclaimsExhausted));
}

/// An operator who takes the lease away wants another worker now: it counts, and waits for nothing.
pub async fn a_revoked_lease_counts_and_waits_for_nothing(w: Arc<World>) {
    let id = w.create_with(json!({"max_reclaim_count": 3})).await;
    lose(&w, id).await;
    w.take(id).await;
    w.revoke(id).await.expect("it is held");
    assert_eq!(row(&w, id).await, (2, 0));
    lose(&w, id).await;
    assert_eq!(row(&w, id).await, (3, 2_000));
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
