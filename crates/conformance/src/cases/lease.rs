//! Leases: until when a worker may act, and what happens when it stops saying that it lives.

use std::sync::Arc;

use ff_core::ClaimAsk;
use ff_core::backend::{Due, Duty};
use ff_core::command::Reply;
use ff_core::decide::Lost;
use ff_core::decide::lease_expiry::{ExpireLease, LeaseChecked};
use ff_core::decide::renew::Renew;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::state::{AttemptState, EligibilityState, OwnershipState, PublicState};
use serde_json::json;

use super::calls::{progress, worker_calls};
use crate::world::{TTL_MS, World, code, worker};

const TTL: i64 = TTL_MS.cast_signed();

fn checked(reply: LeaseChecked) -> [ff_core::Outcome; 1] {
    [Ok(Reply::ExpireLease(reply))]
}

/// A renewal counts from now, not from the end of the lease.
pub async fn renewing_extends_from_now(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(TTL - 1);
    assert_eq!(w.renew(id, fence).await, Ok(w.now().plus(TTL_MS)));
    w.pass(TTL - 1);
    let lease = w.snapshot(id).await.current_lease.expect("it is held");
    assert_eq!(lease.expires_at, w.now().plus(1));
    assert_eq!(w.complete(id, fence).await, Ok(()));
}

/// Renewing is the commonest call: it moves the lease and nothing else.
pub async fn renewing_changes_only_the_lease(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let before = w.get(id).await;
    w.pass(100);
    w.renew(id, fence).await.expect("it is held");
    let after = w.get(id).await;
    assert_eq!((after.version, after.epoch), (before.version, before.epoch));
    assert_eq!(after.updated_at, before.updated_at);
    let lease = w.active(id).await.lease;
    assert_eq!((lease.renewed_at, lease.acquired_at), (w.now(), w.now().minus(100)));
    assert!(w.event_names(id).await.is_empty());
}

/// A worker may ask for another length each time.
pub async fn each_renewal_may_have_its_own_length(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let ask = ClaimAsk { lease_ttl_ms: 10, ..w.ask(1) };
    let leased = w.claim(ask).await.remove(0).leased;
    assert_eq!(leased.lease_until, w.now().plus(10));
    let fence = leased.fence;
    for lease_ttl_ms in [86_400_000, 10, 5_000] {
        let renewed = w.run(Renew { id, fence, lease_ttl_ms }).await;
        let renewed = renewed.expect("it is held");
        assert_eq!(renewed.lease_until, w.now().plus(lease_ttl_ms));
    }
}

/// A lease ends at its end: no grace, and no need of a sweep.
pub async fn a_lease_is_over_at_its_end(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(TTL - 1);
    assert_eq!(w.run(progress(id, fence, 1)).await, Ok(()));
    w.pass(1);
    let before = w.rows();
    for call in worker_calls(id, fence) {
        let name = call.name();
        assert_eq!(code(w.send(call).await), Code::LeaseExpired, "{name}");
    }
    assert_eq!(w.rows(), before);
}

/// Progress is not a sign of life; only a renewal is.
pub async fn progress_does_not_extend_the_lease(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(TTL - 1);
    assert_eq!(w.run(progress(id, fence, 99)).await, Ok(()));
    w.pass(1);
    assert_eq!(code(w.complete(id, fence).await), Code::LeaseExpired);
}

/// A crashed worker's execution goes back to the queue without anybody's help.
pub async fn the_sweep_requeues_what_a_dead_worker_held(w: Arc<World>) {
    let (id, _) = w.running(json!({})).await;
    w.pass(TTL);
    let swept = w.tick(Duty::LeaseExpiry).await;
    assert_eq!(swept, checked(LeaseChecked::Expired(Lost::Requeued)));
    let vector = w.vector(id).await;
    assert_eq!(vector.ownership_state, OwnershipState::Unowned);
    assert_eq!(vector.eligibility_state, EligibilityState::EligibleNow);
    assert_eq!(vector.attempt_state, AttemptState::PendingReclaimAttempt);
    assert_eq!(vector.public_state, PublicState::Waiting);
    assert_eq!(w.snapshot(id).await.current_lease, None);
    let events = w.events(id).await;
    let expired =
        EventKind::LeaseExpired { attempt_index: 0, worker: worker("w1"), retry_at: None };
    assert_eq!(events.into_iter().map(|e| e.kind).collect::<Vec<_>>(), [expired]);
}

/// A lease that lives is nobody's business.
pub async fn the_sweep_finds_nothing_before_the_end(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let until = w.now().plus(TTL_MS);
    w.pass(TTL - 1);
    let next = Some(until);
    let commands = Vec::new();
    assert_eq!(w.due(Duty::LeaseExpiry, 10).await, Due { commands, next });
    let lease_epoch = fence.lease_epoch;
    let early = w.run(ExpireLease { id, lease_epoch }).await;
    assert_eq!(early, Ok(LeaseChecked::Renewed));
    assert_eq!(w.state(id).await, PublicState::Active);
}

/// A renewed lease is filed again, and found again when it does end.
pub async fn the_sweep_spares_a_renewed_lease(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(TTL / 2);
    w.renew(id, fence).await.expect("it is held");
    w.pass(TTL / 2);
    assert_eq!(w.tick(Duty::LeaseExpiry).await, checked(LeaseChecked::Renewed));
    assert_eq!(w.due(Duty::LeaseExpiry, 10).await.next, Some(w.now().plus(TTL_MS / 2)));
    assert_eq!(w.run(progress(id, fence, 5)).await, Ok(()));
    w.pass(TTL / 2);
    let swept = w.tick(Duty::LeaseExpiry).await;
    assert_eq!(swept, checked(LeaseChecked::Expired(Lost::Requeued)));
}

/// A shorter lease is noticed at its own end, not at the end of the longer one before it.
pub async fn renewing_for_less_ends_the_lease_sooner(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let lease_ttl_ms = 1_000;
    w.run(Renew { id, fence, lease_ttl_ms }).await.expect("it is held");
    assert_eq!(w.due(Duty::LeaseExpiry, 10).await.next, Some(w.now().plus(1_000)));
    w.pass(1_000);
    let swept = w.tick(Duty::LeaseExpiry).await;
    assert_eq!(swept, checked(LeaseChecked::Expired(Lost::Requeued)));
}

/// What was filed about an older lease says nothing about the one that holds now.
pub async fn a_check_of_an_older_lease_touches_nothing(w: Arc<World>) {
    let (id, _) = w.running(json!({})).await;
    w.pass(TTL);
    let late = w.due(Duty::LeaseExpiry, 10).await.commands;
    w.tick(Duty::LeaseExpiry).await;
    let second = w.take_as(id, "w2").await.leased.fence;
    w.pass(TTL);
    for command in late {
        let outcome = w.send(command).await;
        assert_eq!(outcome, Ok(Reply::ExpireLease(LeaseChecked::Gone)));
    }
    assert_eq!(w.active(id).await.attempt.worker, worker("w2"));
    assert_eq!(w.get(id).await.fence(), second);
}

/// A finished or waiting execution has no lease to look after.
pub async fn nothing_without_a_lease_is_swept(w: Arc<World>) {
    w.finished(json!({})).await;
    let (released, fence) = w.running(json!({})).await;
    w.release(released, fence).await.expect("it is held");
    w.pass(10 * TTL);
    assert_eq!(w.due(Duty::LeaseExpiry, 10).await, Due::default());
}

/// The epoch tells every lease from every other, and from having none.
pub async fn the_epoch_grows_with_every_acquire_and_release(w: Arc<World>) {
    let policy = json!({"retry_policy": {"backoff": {"type": "fixed", "delay_ms": 0}}});
    let (id, first) = w.running(policy).await;
    let mut epochs = vec![first.lease_epoch];
    w.release(id, first).await.expect("it is held");
    epochs.push(w.get(id).await.epoch);
    let fence = w.take(id).await.leased.fence;
    epochs.push(fence.lease_epoch);
    w.delay(id, fence, w.now()).await.expect("it is held");
    epochs.push(w.get(id).await.epoch);
    let fence = w.take(id).await.leased.fence;
    epochs.push(fence.lease_epoch);
    w.fail(id, fence).await.expect("it is held");
    epochs.push(w.get(id).await.epoch);
    epochs.push(w.take(id).await.leased.fence.lease_epoch);
    w.revoke(id).await.expect("it is held");
    epochs.push(w.get(id).await.epoch);
    let fence = w.take(id).await.leased.fence;
    epochs.push(fence.lease_epoch);
    w.complete(id, fence).await.expect("it is held");
    epochs.push(w.get(id).await.epoch);
    let first = first.lease_epoch;
    assert_eq!(epochs, (first..first + 10).collect::<Vec<_>>());
}
