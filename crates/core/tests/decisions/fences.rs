//! Who may act: the holder, with its fence, until its lease ends. Everybody else learns why not.

use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::decide::retention::Trim;
use ff_core::error::Rejection;
use ff_core::execution::{Fence, first_epoch};
use ff_core::policy::FailureClass;
use ff_core::state::{Phase, TerminalOutcome};
use ff_core::{Code, Millis};
use serde_json::json;

use crate::commands::{
    cancel, close_waitpoint, complete, delay, fail, give_up, make_waitpoint, progress, release,
    renew, replay, revoke, suspend,
};
use crate::samples::{policy, samples};
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

/// What every call of a worker is refused with; it must be the same for all.
fn refusals(life: &Life, fence: Fence) -> Rejection {
    let (id, until) = (life.id, life.world.now.plus(1));
    let refusals = [
        life.clone().refused(renew(id, fence)),
        life.clone().refused(progress(id, fence, 1)),
        life.clone().refused(complete(id, fence)),
        life.clone().refused(fail(id, fence, FailureClass::Transient)),
        life.clone().refused(delay(id, fence, until)),
        life.clone().refused(release(id, fence)),
        life.clone().refused(give_up(id, fence)),
        life.clone().refused(suspend(id, fence)),
        life.clone().refused(make_waitpoint(id, fence)),
        life.clone().refused(close_waitpoint(id, fence)),
    ];
    for refusal in &refusals {
        assert_eq!(refusal.code, refusals[0].code, "{refusals:#?}");
    }
    refusals[0].clone()
}

#[test]
fn a_lease_holds_up_to_its_last_millisecond_and_no_longer() {
    let mut life = active();
    life.pass(LEASE_TTL_MS - 1);
    life.clone().tell(complete(life.id, life.fence));
    life.pass(1);
    assert_eq!(refusals(&life, life.fence).code, Code::LeaseExpired);
}

#[test]
fn a_worker_whose_lease_ran_out_is_told_so_while_that_lease_was_the_last() {
    let mut life = active();
    let old = life.fence;
    lapse(&mut life);
    assert_eq!(refusals(&life, old).code, Code::LeaseExpired);
    life.claim();
    assert_eq!(refusals(&life, old).code, Code::StaleLease);
    life.tell(release(life.id, life.fence));
    assert_eq!(refusals(&life, old).code, Code::StaleLease);
    life.claim();
    life.tell(complete(life.id, life.fence));
    assert_eq!(refusals(&life, old).code, Code::ExecutionNotActive);
}

#[test]
fn a_worker_whose_lease_was_revoked_is_told_so_while_that_lease_was_the_last() {
    let mut life = active();
    let old = life.fence;
    life.tell(revoke(life.id));
    assert_eq!(refusals(&life, old).code, Code::LeaseRevoked);
    life.claim();
    assert_eq!(refusals(&life, old).code, Code::StaleLease);
    life.tell(cancel(life.id));
    assert_eq!(refusals(&life, old).code, Code::ExecutionNotActive);
}

#[test]
fn a_stale_worker_cannot_do_anything_to_its_successor() {
    let mut life = active();
    let old = life.fence;
    lapse(&mut life);
    life.claim();
    let refusal = refusals(&life, old);
    assert_eq!(refusal.code, Code::StaleLease);
    let standing = refusal.standing.unwrap();
    assert_eq!(standing.phase, Phase::Active);
    assert_eq!(standing.lease_epoch, life.fence.lease_epoch);
    assert_eq!(standing.attempts, 2);
}

#[test]
fn a_forged_fence_opens_nothing() {
    let life = active();
    let Fence { attempt_index, lease_epoch } = life.fence;
    for (attempt_index, lease_epoch) in [
        (attempt_index + 1, lease_epoch),
        (u32::MAX, lease_epoch),
        (attempt_index, lease_epoch + 1),
        (attempt_index, lease_epoch + 2),
        (attempt_index, lease_epoch - 1),
        (attempt_index, u64::MAX),
    ] {
        let forged = Fence { attempt_index, lease_epoch };
        let refusal = refusals(&life, forged);
        assert_eq!(refusal.code, Code::StaleLease, "{forged:?}");
    }
}

#[test]
fn no_fence_of_any_shape_changes_what_nobody_holds() {
    for sample in samples() {
        let Some(x) = sample.life.find().cloned() else {
            continue;
        };
        if x.state.phase() == Phase::Active {
            continue;
        }
        for attempt_index in [0, 1, 2, u32::MAX] {
            let first = first_epoch(x.spec.created_at);
            let forged = [0, 1, u64::MAX - 1, u64::MAX];
            for lease_epoch in (first - 1..=x.epoch + 1).chain(forged) {
                let fence = Fence { attempt_index, lease_epoch };
                let mut world = sample.life.world.clone();
                let until = world.now.plus(1);
                let (_, set) = world.fold(&[
                    renew(x.id, fence).into(),
                    progress(x.id, fence, 1).into(),
                    complete(x.id, fence).into(),
                    fail(x.id, fence, FailureClass::Transient).into(),
                    delay(x.id, fence, until).into(),
                    release(x.id, fence).into(),
                    give_up(x.id, fence).into(),
                    suspend(x.id, fence).into(),
                    make_waitpoint(x.id, fence).into(),
                    close_waitpoint(x.id, fence).into(),
                ]);
                assert!(set.is_empty(), "{} {fence:?}: {set:#?}", sample.name);
            }
        }
    }
}

#[test]
fn before_the_first_claim_every_fence_is_stale() {
    let life = Life::under(&policy());
    let epoch = life.x().epoch;
    for lease_epoch in [0, 1, epoch - 1, epoch, epoch + 1, u64::MAX] {
        let fence = Fence { attempt_index: 0, lease_epoch };
        assert_eq!(refusals(&life, fence).code, Code::StaleLease);
    }
}

#[test]
fn a_worker_that_comes_after_the_end_is_told_how_it_ended() {
    let mut life = active();
    life.tell(cancel(life.id));
    let refusal = refusals(&life, life.fence);
    assert_eq!(refusal.code, Code::ExecutionNotActive);
    let standing = refusal.standing.unwrap();
    assert_eq!(standing.phase, Phase::Terminal);
    assert_eq!(standing.outcome, Some(TerminalOutcome::Cancelled));
    assert_eq!(standing.lease_epoch, life.fence.lease_epoch + 1);
}

#[test]
fn a_worker_that_handed_it_back_itself_is_told_that_nobody_holds_it() {
    let mut life = active();
    let fence = life.fence;
    let (mut failed, mut released) = (life.clone(), life.clone());
    life.tell(delay(life.id, fence, life.world.now));
    failed.tell(fail(failed.id, fence, FailureClass::Transient));
    released.tell(release(released.id, fence));
    for mut life in [life, failed, released] {
        let refusal = life.refused(complete(life.id, fence));
        assert_eq!(refusal.code, Code::ExecutionNotActive);
        assert_eq!(refusal.standing.unwrap().phase, Phase::Runnable);
    }
}

#[test]
fn a_replay_makes_the_fence_that_ended_it_stale() {
    let mut life = active();
    life.tell(complete(life.id, life.fence));
    life.tell(replay(life.id));
    assert_eq!(refusals(&life, life.fence).code, Code::StaleLease);
}

#[test]
fn the_epoch_grows_on_every_acquire_and_on_every_release() {
    let mut life =
        Life::under(&json!({"retry_policy": {"backoff": {"type": "fixed", "delay_ms": 0}}}));
    let mut epochs = vec![life.x().epoch];
    for n in 0..5 {
        life.claim();
        epochs.push(life.x().epoch);
        let fence = life.fence;
        match n {
            0 => life.tell(release(life.id, fence)),
            1 => drop(life.tell(delay(life.id, fence, life.world.now))),
            2 => drop(life.tell(fail(life.id, fence, FailureClass::Transient))),
            3 => lapse(&mut life),
            _ => life.tell(complete(life.id, fence)),
        }
        epochs.push(life.x().epoch);
    }
    let first = first_epoch(life.x().spec.created_at);
    assert_eq!(epochs, (first..=first + 10).collect::<Vec<_>>());
}

#[test]
fn an_id_used_again_does_not_see_its_old_fences_again() {
    let mut life = Life::under(&json!({"retention_ms": 0, "dedup_window_ms": 1}));
    let mut seen = Vec::new();
    for _ in 0..3 {
        for _ in 0..2 {
            life.claim();
            assert!(!seen.contains(&life.fence), "{:?} after {seen:?}", life.fence);
            seen.push(life.fence);
            life.pass(1);
            life.tell(release(life.id, life.fence));
        }
        life.tell(cancel(life.id));
        assert!(life.tell(Trim { id: life.id }));
        life.tell(life.creation.clone());
        for old in &seen {
            assert_eq!(refusals(&life, *old).code, Code::StaleLease);
        }
    }
}

#[test]
fn a_first_epoch_is_even_and_storable_whatever_the_clock_reads() {
    for at in [i64::MIN, -1, 0, 1, DAWN.0, i64::MAX / 2 + 1, i64::MAX] {
        let epoch = first_epoch(Millis(at));
        assert!(epoch.is_multiple_of(2), "{at}");
        assert!(epoch < i64::MAX.cast_unsigned() / 2, "{at}");
    }
}

#[test]
fn a_clock_that_runs_backwards_neither_shortens_a_lease_nor_turns_back_a_row() {
    let mut life = active();
    let claimed_at = life.world.now;
    life.world.now = claimed_at.minus(500_000);
    let renewed = life.tell(renew(life.id, life.fence));
    assert_eq!(renewed.lease_until, claimed_at.plus(LEASE_TTL_MS));
    life.tell(progress(life.id, life.fence, 10));
    assert_eq!(life.x().updated_at, claimed_at);
    life.tell(complete(life.id, life.fence));
    assert_eq!(life.x().updated_at, claimed_at);
    assert_eq!(life.events[0].at, claimed_at);
}
