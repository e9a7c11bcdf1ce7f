//! Revoking: an operator takes a lease away, and another worker takes over.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::decide::Lost;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::revoke::{Revoke, Revoked};
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::{Fence, LeaseEnd};
use ff_core::state::{AttemptState, PublicState, TerminalOutcome};
use serde_json::json;

use super::calls::revocation;
use crate::world::{TTL_MS, World, code, worker};

/// The work moves on and the record says why.
pub async fn revoking_hands_the_work_to_another(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let expected = Revoked::Revoked { lease_epoch: fence.lease_epoch, lost: Lost::Requeued };
    assert_eq!(w.revoke(id).await, Ok(expected));
    assert_eq!(w.vector(id).await.attempt_state, AttemptState::PendingReclaimAttempt);
    let events = w.events(id).await;
    let revoked = EventKind::LeaseRevoked {
        attempt_index: 0,
        worker: worker("w1"),
        reason: "stuck".to_owned(),
    };
    assert_eq!(events[0].kind, revoked);
    let leased = w.take_as(id, "w2").await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Reclaimed, 1));
}

/// An operator who looked at one lease does not take another.
pub async fn revoking_may_name_the_lease(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let lease_epoch = fence.lease_epoch + 1;
    let naming = |expected| Revoke { expected, ..revocation(id) };
    let other = Some(Fence { lease_epoch, ..fence });
    assert_eq!(code(w.run(naming(other)).await), Code::StaleLease);
    assert_eq!(w.state(id).await, PublicState::Active);
    let lost = Lost::Requeued;
    let lease_epoch = fence.lease_epoch;
    let revoked = w.run(naming(Some(fence))).await;
    assert_eq!(revoked, Ok(Revoked::Revoked { lease_epoch, lost }));
}

/// Draining one worker process does not disturb the others.
pub async fn revoking_may_name_the_worker(w: Arc<World>) {
    let (id, _) = w.running(json!({})).await;
    let of = |name: &str| Revoke { worker_instance: Some(worker(name).instance), ..revocation(id) };
    assert_eq!(code(w.run(of("w2")).await), Code::StaleLease);
    assert_eq!(w.active(id).await.attempt.worker, worker("w1"));
    assert!(matches!(w.run(of("w1")).await, Ok(Revoked::Revoked { .. })));
}

/// There is no lease to take from what nobody holds.
pub async fn revoking_what_nobody_holds_is_refused(w: Arc<World>) {
    let fresh = w.create(w.draft()).await;
    assert_eq!(code(w.revoke(fresh).await), Code::NoActiveLease);
    let fence = w.take(fresh).await.leased.fence;
    w.release(fresh, fence).await.expect("it is held");
    assert_eq!(code(w.revoke(fresh).await), Code::NoActiveLease);
}

/// A finished execution is not reported as revoked.
pub async fn revoking_what_has_ended_tells_how_it_ended(w: Arc<World>) {
    let id = w.finished(json!({})).await;
    let before = w.rows();
    let refused = w.revoke(id).await.expect_err("it has ended");
    assert_eq!(refused.code, Code::ExecutionNotActive);
    let standing = refused.standing.expect("it says where it stands");
    assert_eq!(standing.outcome, Some(TerminalOutcome::Success));
    assert_eq!(w.rows(), before);
}

/// Two operators, or an operator and the sweep, want the same thing.
pub async fn revoking_what_is_already_lost_is_satisfied(w: Arc<World>) {
    let (id, _) = w.running(json!({})).await;
    w.revoke(id).await.expect("it is held");
    let how = LeaseEnd::Revoked;
    assert_eq!(w.revoke(id).await, Ok(Revoked::AlreadySatisfied { how }));
    w.take(id).await;
    w.pass(TTL_MS.cast_signed());
    w.tick(Duty::LeaseExpiry).await;
    let how = LeaseEnd::Expired;
    assert_eq!(w.revoke(id).await, Ok(Revoked::AlreadySatisfied { how }));
    assert_eq!(w.get(id).await.counts.reclaims, 2);
}

/// Taking it away again and again is losing it again and again.
pub async fn revocations_count_as_reclaims(w: Arc<World>) {
    let (id, _) = w.running(json!({"max_reclaim_count": 1})).await;
    w.revoke(id).await.expect("it is held");
    let lease_epoch = w.take(id).await.leased.fence.lease_epoch;
    let lost = Lost::ReclaimsExhausted;
    assert_eq!(w.revoke(id).await, Ok(Revoked::Revoked { lease_epoch, lost }));
    assert_eq!(w.state(id).await, PublicState::Failed);
    let names = w.event_names(id).await;
    assert_eq!(names, ["lease_revoked", "lease_reclaimed", "lease_revoked", "completion"]);
}
