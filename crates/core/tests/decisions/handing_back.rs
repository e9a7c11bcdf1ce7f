//! Releasing a claim, which undoes it, and putting off, which keeps the attempt.

use ff_core::Code;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::claim::{Claim, ClaimKind};
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::execution::{Next, State};
use ff_core::limits::DURATION_MS_MAX;
use ff_core::policy::FailureClass;
use ff_core::state::{AttemptState, BlockingReason, PublicState};
use ff_core::time::Millis;

use crate::commands::{complete, delay, fail, progress, release, replay};
use crate::samples::{ATTEMPT_MS, BACKOFF_MS, DEADLINE_MS, policy};
use crate::world::{DAWN, LEASE_TTL_MS, Life};

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

fn lapse(life: &mut Life) {
    life.pass(LEASE_TTL_MS);
    life.tell(ExpireLease { id: life.id, lease_epoch: life.fence.lease_epoch });
}

/// Something to claim, of each kind.
fn claimable() -> Vec<(ClaimKind, Life)> {
    let mut retried = active();
    retried.tell(fail(retried.id, retried.fence, FailureClass::Transient));
    retried.pass(BACKOFF_MS);
    let mut reclaimed = active();
    lapse(&mut reclaimed);
    let mut replayed = active();
    replayed.tell(complete(replayed.id, replayed.fence));
    replayed.tell(replay(replayed.id));
    let mut resumed = active();
    resumed.tell(delay(resumed.id, resumed.fence, resumed.world.now));
    vec![
        (ClaimKind::First, Life::under(&policy())),
        (ClaimKind::Retried, retried),
        (ClaimKind::Reclaimed, reclaimed),
        (ClaimKind::Replayed, replayed),
        (ClaimKind::Resumed, resumed),
    ]
}

fn next(life: &Life) -> &Next {
    match &life.x().state {
        State::Runnable(runnable) => &runnable.next,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_released_claim_leaves_what_it_had_found() {
    for (kind, mut life) in claimable() {
        let (counts, found) = (life.x().counts, life.vector());
        let history = life.history.len();
        let leased = life.claim();
        assert_eq!(leased.kind, kind);
        life.tell(release(life.id, life.fence));
        assert_eq!(life.x().counts, counts, "{kind}");
        assert_eq!(life.vector(), found, "{kind}");
        assert_eq!(life.history.len(), history, "{kind}: nothing was tried");
        life.repeat(release(life.id, life.fence));
        let again = life.claim();
        assert_eq!(again.kind, kind);
        assert_eq!(again.fence.attempt_index, leased.fence.attempt_index);
        assert_eq!(again.fence.lease_epoch, leased.fence.lease_epoch + 2);
    }
}

#[test]
fn a_claim_released_many_times_is_still_no_attempt() {
    let mut life = Life::under(&policy());
    for _ in 0..20 {
        life.claim();
        life.tell(release(life.id, life.fence));
    }
    assert_eq!(life.x().counts.attempts, 0);
    let states = (PublicState::Waiting, AttemptState::PendingFirstAttempt);
    assert_eq!(life.states(), states);
    assert!(life.events.is_empty() && life.history.is_empty());
}

#[test]
fn a_release_after_the_next_claim_is_stale() {
    let mut life = active();
    let old = life.fence;
    life.tell(release(life.id, old));
    life.claim();
    assert_eq!(life.refused(release(life.id, old)).code, Code::StaleLease);
    assert_eq!(life.refused(complete(life.id, old)).code, Code::StaleLease);
}

#[test]
fn what_is_put_off_goes_on_as_the_same_attempt() {
    let mut life = active();
    life.tell(progress(life.id, life.fence, 30));
    let until = life.world.now.plus(BACKOFF_MS);
    let delayed = life.tell(delay(life.id, life.fence, until));
    assert_eq!(delayed.delay_until, until);
    let vector = life.vector();
    assert_eq!(vector.public_state, PublicState::Delayed);
    assert_eq!(vector.attempt_state, AttemptState::AttemptInterrupted);
    assert_eq!(vector.blocking_reason, BlockingReason::WaitingForDelay);
    life.pass(BACKOFF_MS);
    let old = life.fence;
    let leased = life.claim();
    assert_eq!(leased.kind, ClaimKind::Resumed);
    assert_eq!(leased.fence.attempt_index, old.attempt_index);
    assert_eq!(leased.fence.lease_epoch, old.lease_epoch + 2);
    assert_eq!(life.x().counts.attempts, 1);
    assert_eq!(life.x().progress.as_ref().unwrap().percent, Some(30));
    assert!(life.history.is_empty() && life.events.is_empty());
}

#[test]
fn putting_off_may_be_repeated_and_the_first_time_stays() {
    let mut life = active();
    let first = life.tell(delay(life.id, life.fence, life.world.now.plus(BACKOFF_MS)));
    life.pass(10 * BACKOFF_MS);
    let again = life.repeat(delay(life.id, life.fence, life.world.now.plus(999)));
    assert_eq!(again, first);
}

#[test]
fn running_time_adds_up_over_leases_and_waiting_does_not_count() {
    let mut life = active();
    life.pass(LEASE_TTL_MS - 1);
    life.tell(delay(life.id, life.fence, life.world.now.plus(ATTEMPT_MS)));
    life.pass(ATTEMPT_MS);
    let Next::Resume(attempt) = next(&life) else { panic!("{:?}", life.x()) };
    assert_eq!(attempt.ran_ms, LEASE_TTL_MS - 1);
    let claim = Claim { lease_ttl_ms: 2 * ATTEMPT_MS, ..life.next_claim() };
    life.take(claim);
    let left = ATTEMPT_MS - (LEASE_TTL_MS - 1);
    life.pass(left - 1);
    assert_eq!(life.repeat(TimeOutAttempt { id: life.id }), None);
    life.pass(1);
    assert!(life.tell(TimeOutAttempt { id: life.id }).is_some());
}

#[test]
fn a_released_resumption_keeps_its_running_time() {
    let mut life = active();
    life.tell(delay(life.id, life.fence, life.world.now));
    life.claim();
    life.pass(300);
    life.tell(release(life.id, life.fence));
    let Next::Resume(attempt) = next(&life) else { panic!("{:?}", life.x()) };
    assert_eq!(attempt.ran_ms, 300);
}

#[test]
fn putting_off_into_the_past_means_at_once() {
    let mut life = active();
    life.tell(delay(life.id, life.fence, Millis::ZERO));
    let states = (PublicState::Waiting, AttemptState::AttemptInterrupted);
    assert_eq!(life.states(), states);
    assert_eq!(life.claim().kind, ClaimKind::Resumed);
}

#[test]
fn putting_off_to_no_time_at_all_is_refused() {
    let mut life = active();
    for until in [Millis(-1), life.world.now.plus(DURATION_MS_MAX + 1), Millis(i64::MAX)] {
        let refused = life.refused(delay(life.id, life.fence, until));
        assert_eq!(refused.code, Code::InvalidInput);
        assert_eq!(refused.field, Some("delay_until"));
    }
    life.tell(delay(life.id, life.fence, life.world.now.plus(DURATION_MS_MAX)));
}

#[test]
fn putting_off_does_not_move_the_deadline() {
    let mut life = active();
    let deadline = Some(DAWN.plus(DEADLINE_MS));
    assert_eq!(life.x().deadline_at, deadline);
    life.tell(delay(life.id, life.fence, DAWN.plus(10 * DEADLINE_MS)));
    assert_eq!(life.x().deadline_at, deadline);
}
