//! Claiming, renewing and losing a lease.

use std::collections::BTreeSet;

use ff_core::Code;
use ff_core::decide::Lost;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::claim::{Claim, ClaimKind};
use ff_core::decide::lease_expiry::{ExpireLease, LeaseChecked};
use ff_core::decide::renew::Renew;
use ff_core::execution::{AttemptKind, AttemptOutcome, Lease, State};
use ff_core::policy::FailureClass;
use ff_core::state::{AttemptState, PublicState};
use serde_json::json;

use crate::commands::{complete, delay, fail, hold, progress, release, renew, replay};
use crate::samples::{ATTEMPT_MS, BACKOFF_MS, policy};
use crate::world::{LEASE_TTL_MS, Life, worker};

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

fn lease(life: &Life) -> Lease {
    match &life.x().state {
        State::Active(active) => active.lease.clone(),
        other => panic!("{other:?}"),
    }
}

fn sweep(life: &mut Life) -> LeaseChecked {
    life.tell(ExpireLease { id: life.id, lease_epoch: life.fence.lease_epoch })
}

#[test]
fn a_claim_repeated_by_its_worker_gives_the_same_lease() {
    let mut life = Life::under(&policy());
    let claim = life.next_claim();
    let first = life.take(claim.clone());
    assert_eq!(life.repeat(claim.clone()), first);
    life.pass(LEASE_TTL_MS - 1);
    let again = life.tell(claim.clone());
    assert_eq!((again.kind, again.fence), (first.kind, first.fence));
    assert_eq!(again.lease_until, first.lease_until.plus(LEASE_TTL_MS - 1), "it is renewed");
    life.pass(LEASE_TTL_MS);
    let refused = life.refused(claim);
    assert_eq!(refused.code, Code::ExecutionNotLeaseable);
}

#[test]
fn a_claim_repeated_by_another_worker_is_refused() {
    let mut life = Life::under(&policy());
    let claim = life.next_claim();
    life.take(claim.clone());
    let refused = life.refused(Claim { worker: worker("thief"), ..claim });
    assert_eq!(refused.code, Code::ExecutionNotLeaseable);
}

#[test]
fn only_a_worker_that_offers_everything_required_may_claim() {
    let mut life = Life::under(&json!({
        "routing_requirements": {"required_capabilities": ["gpu", "eu"]},
    }));
    let offer = |life: &mut Life, offered: &[&str]| Claim {
        capabilities: offered.iter().map(|c| (*c).to_owned()).collect::<BTreeSet<_>>(),
        ..life.next_claim()
    };
    for offered in [&[][..], &["gpu"], &["eu", "GPU"]] {
        let claim = offer(&mut life, offered);
        assert_eq!(life.refused(claim).code, Code::CapabilityMismatch);
    }
    let claim = offer(&mut life, &["eu", "gpu", "spare"]);
    assert_eq!(life.tell(claim).kind, ClaimKind::First);
}

#[test]
fn a_claim_says_what_it_hands_out() {
    let mut life = Life::under(&policy());
    let mut kinds = vec![life.claim().kind];
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    life.pass(BACKOFF_MS);
    kinds.push(life.claim().kind);
    life.tell(delay(life.id, life.fence, life.world.now));
    kinds.push(life.claim().kind);
    life.pass(LEASE_TTL_MS);
    sweep(&mut life);
    kinds.push(life.claim().kind);
    life.tell(complete(life.id, life.fence));
    life.tell(replay(life.id));
    kinds.push(life.claim().kind);
    assert_eq!(
        kinds,
        [
            ClaimKind::First,
            ClaimKind::Retried,
            ClaimKind::Resumed,
            ClaimKind::Reclaimed,
            ClaimKind::Replayed,
        ]
    );
    let indexes: Vec<_> = life.history.iter().map(|a| (a.index, a.kind)).collect();
    assert_eq!(
        indexes,
        [(0, AttemptKind::Initial), (1, AttemptKind::Retry), (2, AttemptKind::Reclaim)]
    );
    assert_eq!(life.x().counts.attempts, 4);
}

#[test]
fn what_is_delayed_held_running_or_over_cannot_be_claimed() {
    let refusal = |life: &mut Life| {
        let claim = life.next_claim();
        life.refused(claim).message
    };
    let mut life = Life::under(&policy());
    life.tell(hold(life.id));
    assert!(refusal(&mut life).ends_with("is held by an operator"));
    let mut life = active();
    assert!(refusal(&mut life).ends_with("is held by a worker"));
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    let until = life.world.now.plus(BACKOFF_MS);
    assert!(refusal(&mut life).ends_with(&format!("is delayed until {until}")));
    life.pass(BACKOFF_MS - 1);
    assert!(refusal(&mut life).ends_with(&format!("is delayed until {until}")));
    life.pass(1);
    life.claim();
    life.tell(complete(life.id, life.fence));
    assert!(refusal(&mut life).ends_with("has ended: success"));
}

#[test]
fn the_first_claim_is_when_it_started_and_that_never_changes() {
    let mut life = Life::under(&policy());
    life.pass(5);
    life.claim();
    let started = life.x().started_at;
    assert_eq!(started, Some(life.world.now));
    life.tell(release(life.id, life.fence));
    life.pass(5);
    life.claim();
    assert_eq!(life.x().started_at, started);
}

#[test]
fn a_renewal_moves_only_the_lease() {
    let mut life = active();
    let before = life.x().clone();
    life.pass(400);
    let reply = life.tell(renew(life.id, life.fence));
    assert_eq!(reply.lease_until, life.world.now.plus(LEASE_TTL_MS));
    assert_eq!(life.x().version, before.version);
    assert_eq!(life.x().updated_at, before.updated_at);
    let set = &life.written;
    assert_eq!(set.leases.len(), 1);
    assert!(set.executions.is_empty() && set.events.is_empty() && set.timers.insert.is_empty());
    let now = lease(&life);
    assert_eq!(now.renewed_at, life.world.now);
    assert_eq!(now.until, reply.lease_until);
}

#[test]
fn a_renewal_does_not_move_what_the_sweep_finds_it_by_unless_it_ends_earlier() {
    let mut life = active();
    let first = lease(&life);
    assert_eq!(first.check_at, first.until);
    life.pass(400);
    life.tell(renew(life.id, life.fence));
    assert_eq!(lease(&life).check_at, first.check_at);
    life.tell(Renew { lease_ttl_ms: 100, ..renew(life.id, life.fence) });
    assert_eq!(lease(&life).until, life.world.now.plus(100));
    assert_eq!(lease(&life).check_at, lease(&life).until);
}

#[test]
fn the_sweep_files_a_renewed_lease_again_and_takes_a_lapsed_one() {
    let mut life = active();
    let before = life.x().version;
    life.pass(LEASE_TTL_MS - 1);
    life.tell(renew(life.id, life.fence));
    life.pass(1);
    assert_eq!(sweep(&mut life), LeaseChecked::Renewed);
    assert_eq!(lease(&life).check_at, lease(&life).until);
    assert_eq!(life.x().version, before);
    assert!(life.written.executions.is_empty());
    life.pass(LEASE_TTL_MS);
    assert_eq!(sweep(&mut life), LeaseChecked::Expired(Lost::Requeued));
    assert_eq!(sweep(&mut life), LeaseChecked::Gone);
    assert!(life.written.is_empty());
}

#[test]
fn the_sweep_ends_an_attempt_that_timed_out_first_as_the_timeout_would() {
    let mut life = Life::under(&policy());
    let claim = Claim { lease_ttl_ms: ATTEMPT_MS, ..life.next_claim() };
    life.take(claim);
    life.pass(ATTEMPT_MS);
    let mut other = life.clone();
    let failed = other.tell(TimeOutAttempt { id: life.id }).unwrap();
    assert_eq!(sweep(&mut life), LeaseChecked::TimedOut(failed));
    assert_eq!((life.x(), &life.written), (other.x(), &other.written));
    assert_eq!(sweep(&mut life), LeaseChecked::Gone);
    assert!(life.written.is_empty());
    assert_eq!(sweep(&mut other), LeaseChecked::Gone);
}

#[test]
fn the_sweep_leaves_a_later_lease_alone() {
    let mut life = active();
    let old = life.fence;
    life.tell(release(life.id, old));
    life.claim();
    life.pass(LEASE_TTL_MS);
    let checked = life.repeat(ExpireLease { id: life.id, lease_epoch: old.lease_epoch });
    assert_eq!(checked, LeaseChecked::Gone);
}

#[test]
fn a_lost_lease_sends_it_back_and_keeps_the_attempt_in_history() {
    let mut life = active();
    life.tell(progress(life.id, life.fence, 40));
    life.pass(LEASE_TTL_MS);
    sweep(&mut life);
    let states = (PublicState::Waiting, AttemptState::PendingReclaimAttempt);
    assert_eq!(life.states(), states);
    assert_eq!(life.x().counts.reclaims, 1);
    assert_eq!(life.x().counts.retries, 0);
    let lost = &life.history[0];
    assert_eq!((lost.index, lost.outcome), (0, AttemptOutcome::Interrupted));
    assert_eq!(lost.ended_at, life.world.now);
    assert_eq!(life.claim().fence.attempt_index, 1);
    assert_eq!(life.x().progress, None, "a new attempt begins from nothing");
}

#[test]
fn a_lease_that_is_absurdly_short_or_long_is_refused() {
    let config = ff_core::Config::default();
    let mut life = active();
    for lease_ttl_ms in [0, 9, 86_400_001, u64::MAX] {
        let claim = Claim { lease_ttl_ms, ..life.next_claim() };
        let renew = Renew { lease_ttl_ms, ..renew(life.id, life.fence) };
        for command in [ff_core::Command::from(claim), renew.into()] {
            let refused = command.validate(&config).unwrap_err();
            assert_eq!(refused.code, Code::InvalidInput);
            assert_eq!(refused.field, Some("lease_ttl_ms"));
        }
    }
}
