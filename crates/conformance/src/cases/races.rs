//! Races: whatever order things arrive in, one side wins and the other is told.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::lease_expiry::{ExpireLease, LeaseChecked};
use ff_core::decide::renew::Renew;
use ff_core::error::Code;
use ff_core::fold::BlobRef;
use ff_core::state::PublicState;
use ff_core::text::IdempotencyKey;
use serde_json::json;

use super::calls::{cancellation, completion, revocation, worker_calls};
use crate::world::{TTL_MS, World, code, worker};

const TTL: i64 = TTL_MS.cast_signed();

/// A worker that slept through its lease wakes up and changes nothing.
pub async fn a_paused_worker_wakes_after_its_lease_moved(w: Arc<World>) {
    let (id, asleep) = w.running(json!({})).await;
    w.pass(TTL);
    w.tick(Duty::LeaseExpiry).await;
    let awake = w.take_as(id, "w2").await.leased.fence;
    let before = w.rows();
    for call in worker_calls(id, asleep) {
        let name = call.name();
        assert_eq!(code(w.send(call).await), Code::StaleLease, "{name}");
    }
    assert_eq!(w.rows(), before);
    assert_eq!(w.run(completion(id, awake, b"mine")).await, Ok(()));
    assert_eq!(code(w.complete(id, asleep).await), Code::ExecutionNotActive);
    assert_eq!(w.blob(BlobRef::Result(id, 1)).await.as_deref(), Some(&b"mine"[..]));
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await, None);
}

/// Two workers reach for one lost execution: one gets it.
pub async fn two_workers_reach_for_one_lost_execution(w: Arc<World>) {
    let (id, _) = w.running(json!({})).await;
    w.pass(TTL);
    w.tick(Duty::LeaseExpiry).await;
    let (a, b) = tokio::join!(w.take_ids(1), w.take_ids(1));
    assert_eq!([a, b].concat(), [id]);
    assert_eq!(w.get(id).await.counts.attempts, 2);
}

/// The sweep, the new owner and the old one meet in one batch.
pub async fn sweep_takeover_and_late_completion_in_one_batch(w: Arc<World>) {
    let (id, old) = w.running(json!({})).await;
    w.pass(TTL);
    let lease_epoch = old.lease_epoch;
    let batch = vec![
        ExpireLease { id, lease_epoch }.into(),
        w.naming(id).into(),
        completion(id, old, b"late").into(),
        ExpireLease { id, lease_epoch }.into(),
    ];
    let outcomes = w.batch(batch).await;
    assert_eq!(code(outcomes[2].clone()), Code::StaleLease);
    assert_eq!(outcomes[3], Ok(Reply::ExpireLease(LeaseChecked::Gone)));
    assert_eq!(w.active(id).await.attempt.index, 1);
}

/// The last millisecond of a lease is inside it; after that the sweep has nothing to find.
pub async fn completing_in_the_last_millisecond_wins(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(TTL - 1);
    assert_eq!(w.complete(id, fence).await, Ok(()));
    w.pass(1);
    assert!(w.tick(Duty::LeaseExpiry).await.is_empty());
    assert_eq!(w.event_names(id).await, ["completion"]);
}

/// Renewal and sweep in one batch: whoever comes first is right.
pub async fn renewal_and_sweep_in_one_batch(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let (lease_epoch, lease_ttl_ms) = (fence.lease_epoch, TTL_MS);
    let sweep = ExpireLease { id, lease_epoch };
    let renew = Renew { id, fence, lease_ttl_ms };
    w.pass(TTL - 1);
    let outcomes = w.batch(vec![renew.clone().into(), sweep.clone().into()]).await;
    assert_eq!(outcomes[1], Ok(Reply::ExpireLease(LeaseChecked::Renewed)));
    w.pass(TTL);
    let outcomes = w.batch(vec![sweep.into(), renew.into()]).await;
    assert!(matches!(outcomes[0], Ok(Reply::ExpireLease(LeaseChecked::Expired(_)))));
    assert_eq!(code(outcomes[1].clone()), Code::LeaseExpired);
}

/// Success and cancellation: the first counts and the second is told, in either order.
pub async fn completion_and_cancellation_in_one_batch(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let complete = completion(id, fence, b"done");
    let outcomes = w.batch(vec![complete.into(), cancellation(id).into()]).await;
    assert!(outcomes[0].is_ok());
    assert_eq!(code(outcomes[1].clone()), Code::ExecutionNotActive);
    assert_eq!(w.state(id).await, PublicState::Completed);
    assert_eq!(w.event_names(id).await, ["completion"]);

    let (id, fence) = w.running(json!({})).await;
    let complete = completion(id, fence, b"done");
    let outcomes = w.batch(vec![cancellation(id).into(), complete.into()]).await;
    assert!(outcomes[0].is_ok());
    assert_eq!(code(outcomes[1].clone()), Code::ExecutionNotActive);
    assert_eq!(w.state(id).await, PublicState::Cancelled);
    assert_eq!(w.event_names(id).await, ["lease_revoked", "completion"]);
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await, None);
}

/// The same two from two callers at once: exactly one succeeds.
pub async fn completion_and_cancellation_at_the_same_time(w: Arc<World>) {
    for _ in 0..4 {
        let (id, fence) = w.running(json!({})).await;
        let (done, cancelled) = tokio::join!(w.complete(id, fence), w.cancel(id));
        assert_ne!(done.is_ok(), cancelled.is_ok());
        let expected = if done.is_ok() { PublicState::Completed } else { PublicState::Cancelled };
        assert_eq!(w.state(id).await, expected);
    }
}

/// An operator's revocation and the worker's success: the first counts.
pub async fn completion_and_revocation_in_one_batch(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let complete = completion(id, fence, b"done");
    let outcomes = w.batch(vec![revocation(id).into(), complete.into()]).await;
    assert!(outcomes[0].is_ok());
    assert_eq!(code(outcomes[1].clone()), Code::LeaseRevoked);
    assert_eq!(w.state(id).await, PublicState::Waiting);
    let fence = w.take(id).await.leased.fence;
    let complete = completion(id, fence, b"done");
    let outcomes = w.batch(vec![complete.into(), revocation(id).into()]).await;
    assert!(outcomes[0].is_ok());
    assert_eq!(code(outcomes[1].clone()), Code::ExecutionNotActive);
}

/// A deadline and a success at the same moment: the first counts.
pub async fn completion_and_deadline_in_one_batch(w: Arc<World>) {
    for completes_first in [true, false] {
        let deadline_at = Some(w.now().plus(10));
        let id = w.create(Create { deadline_at, ..w.draft() }).await;
        let fence = w.take(id).await.leased.fence;
        w.pass(10);
        let mut batch = vec![completion(id, fence, b"done").into(), ExpireExecution { id }.into()];
        if !completes_first {
            batch.reverse();
        }
        let outcomes = w.batch(batch).await;
        if completes_first {
            assert_eq!(outcomes[1], Ok(Reply::ExpireExecution(false)));
            assert_eq!(w.state(id).await, PublicState::Completed);
        } else {
            assert_eq!(code(outcomes[1].clone()), Code::ExecutionNotActive);
            assert_eq!(w.state(id).await, PublicState::Expired);
        }
    }
}

/// Two processes run the same duty: everything is done once.
pub async fn two_processes_run_the_same_duties(w: Arc<World>) {
    let timeouts = json!({"attempt_timeout_ms": TTL_MS, "execution_deadline_ms": TTL_MS});
    let (slow, _) = w.running(json!({"timeout_policy": timeouts})).await;
    let (lost, _) = w.running(json!({})).await;
    w.pass(TTL);
    let mut both = Vec::new();
    for duty in Duty::ALL {
        both.push(w.due(*duty, 100).await.commands);
    }
    let both = both.concat();
    for command in both.iter().chain(&both) {
        w.send(command.clone()).await.expect("a duty is never refused");
    }
    assert_eq!(w.get(lost).await.counts.reclaims, 1);
    assert_eq!(w.event_names(lost).await, ["lease_expired"]);
    let endings = w.event_names(slow).await;
    assert_eq!(endings.iter().filter(|name| **name == "completion").count(), 1);
}

/// Two clients create under one key at once: one execution.
pub async fn two_creations_under_one_key_at_the_same_time(w: Arc<World>) {
    let keyed = || Create {
        idempotency_key: Some(IdempotencyKey::new("k").expect("a valid key")),
        ..w.draft()
    };
    let (a, b) = tokio::join!(w.run(keyed()), w.run(keyed()));
    let (a, b) = (a.expect("valid"), b.expect("valid"));
    assert_eq!(a.execution_id(), b.execution_id());
    let made = [&a, &b].map(|c| matches!(c, Created::Created { .. }));
    assert_ne!(made[0], made[1]);
    assert_eq!(w.take_ids(10).await.len(), 1);
}

/// A worker that released on shutdown and the one that took over do not meet.
pub async fn a_release_that_arrives_late_is_harmless(w: Arc<World>) {
    let (id, old) = w.running(json!({})).await;
    w.pass(TTL);
    w.tick(Duty::LeaseExpiry).await;
    let new = w.take_as(id, "w2").await.leased.fence;
    assert_eq!(code(w.release(id, old).await), Code::StaleLease);
    assert_eq!(w.active(id).await.attempt.worker, worker("w2"));
    assert_eq!(w.complete(id, new).await, Ok(()));
}

/// A hold that comes after the claim is told so; one that comes before keeps it.
pub async fn a_hold_and_a_claim_at_the_same_time(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let (held, given) = tokio::join!(w.hold(id), w.take_ids(1));
    match held {
        Ok(()) => assert!(given.is_empty()),
        Err(refused) => {
            assert_eq!(refused.code, Code::NotRunnable);
            assert_eq!(given, [id]);
        }
    }
}
