//! Cancelling, by an operator, from wherever the execution stands.

use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::create::Create;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::CancelledBy;
use ff_core::state::{AttemptState, BlockingReason, EligibilityState, OwnershipState};
use ff_core::state::{Phase, PublicState, StateVector, TerminalOutcome};
use serde_json::json;

use super::calls::{cancellation, retrying};
use crate::world::{TTL_MS, World, code};

async fn is_cancelled(w: &World, id: ExecutionId) {
    assert_eq!(w.state(id).await, PublicState::Cancelled);
    let snapshot = w.snapshot(id).await;
    assert_eq!(snapshot.cancelled_by, Some(CancelledBy::Operator));
    assert_eq!(snapshot.ended_because.as_deref(), Some("changed my mind"));
    assert_eq!(snapshot.completed_at, Some(w.now()));
    assert!(w.claim_one().await.is_none());
}

/// What never ran ends in every dimension, with its outcome stored.
pub async fn cancelling_what_waits_ends_it(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    assert_eq!(w.cancel(id).await, Ok(()));
    let expected = StateVector {
        lifecycle_phase: Phase::Terminal,
        ownership_state: OwnershipState::Unowned,
        eligibility_state: EligibilityState::NotApplicable,
        blocking_reason: BlockingReason::None,
        terminal_outcome: Some(TerminalOutcome::Cancelled),
        attempt_state: AttemptState::None,
        public_state: PublicState::Cancelled,
        blocking_detail: None,
    };
    assert_eq!(w.vector(id).await, expected);
    let completion = EventKind::Completion {
        outcome: TerminalOutcome::Cancelled,
        attempt_index: None,
        reason: Some("changed my mind".to_owned()),
    };
    let events = w.events(id).await;
    assert_eq!(events.into_iter().map(|e| e.kind).collect::<Vec<_>>(), [completion]);
    is_cancelled(&w, id).await;
}

/// What runs is taken from its worker, whose fence is not asked for.
pub async fn cancelling_what_runs_fences_its_worker(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    assert_eq!(w.cancel(id).await, Ok(()));
    is_cancelled(&w, id).await;
    assert_eq!(w.get(id).await.epoch, fence.lease_epoch + 1);
    assert_eq!(w.vector(id).await.attempt_state, AttemptState::AttemptTerminal);
    assert_eq!(w.event_names(id).await, ["lease_revoked", "completion"]);
    assert_eq!(code(w.complete(id, fence).await), Code::ExecutionNotActive);
    is_cancelled(&w, id).await;
}

/// A delay, a hold, a backoff or an interrupted attempt is no protection.
pub async fn cancelling_works_from_every_kind_of_waiting(w: Arc<World>) {
    let later = w.now().plus(1_000);
    let delay_until = Some(later);
    let delayed = w.create(Create { delay_until, ..w.draft() }).await;
    let (given_back, fence) = w.running(json!({})).await;
    w.delay(given_back, fence, later).await.expect("it is held");
    let (failed, fence) = w.running(retrying(1, 1_000)).await;
    w.fail(failed, fence).await.expect("it is held");
    let (lost, _) = w.running(json!({})).await;
    w.revoke(lost).await.expect("it is held");
    w.hold(lost).await.expect("it waits");
    let (never, tried) = (AttemptState::None, AttemptState::AttemptTerminal);
    for (id, attempt) in [(delayed, never), (given_back, tried), (failed, tried), (lost, tried)] {
        assert_eq!(w.cancel(id).await, Ok(()));
        is_cancelled(&w, id).await;
        assert_eq!(w.vector(id).await.attempt_state, attempt);
    }
    w.pass(1_000);
    assert!(w.claim_one().await.is_none());
}

/// A lease that ran out unnoticed does not stand in the way.
pub async fn cancelling_works_between_expiry_and_sweep(w: Arc<World>) {
    let (id, _) = w.running(json!({})).await;
    w.pass(TTL_MS.cast_signed());
    assert_eq!(w.cancel(id).await, Ok(()));
    is_cancelled(&w, id).await;
    w.tick_all().await;
    is_cancelled(&w, id).await;
}

/// The first cancellation is the one on record.
pub async fn cancelling_twice_keeps_the_first_reason(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    w.cancel(id).await.expect("it waits");
    let before = w.rows();
    w.pass(10);
    let reason = "another reason".to_owned();
    assert_eq!(w.run(Cancel { reason, ..cancellation(id) }).await, Ok(()));
    assert_eq!(w.rows(), before);
}

/// What has ended otherwise is not rewritten.
pub async fn cancelling_what_has_ended_tells_how(w: Arc<World>) {
    let done = w.finished(json!({})).await;
    let (failed, fence) = w.running(json!({})).await;
    w.fail(failed, fence).await.expect("it is held");
    let before = w.rows();
    for (id, outcome) in [(done, TerminalOutcome::Success), (failed, TerminalOutcome::Failed)] {
        let refused = w.cancel(id).await.expect_err("it has ended");
        assert_eq!(refused.code, Code::ExecutionNotActive);
        assert_eq!(refused.standing.and_then(|s| s.outcome), Some(outcome));
    }
    assert_eq!(w.rows(), before);
}

/// A worker's cancellation is a worker's call: without its lease it is refused.
pub async fn cancelling_with_a_fence_needs_the_lease(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.revoke(id).await.expect("it is held");
    let cancel = Cancel { fence: Some(fence), ..cancellation(id) };
    assert_eq!(code(w.run(cancel.clone()).await), Code::LeaseRevoked);
    w.take_as(id, "w2").await;
    assert_eq!(code(w.run(cancel).await), Code::StaleLease);
    assert_eq!(w.state(id).await, PublicState::Active);
}
