//! What the holder of a lease says: progress, success, and its own cancellation.

use std::sync::Arc;

use bytes::Bytes;
use ff_core::backend::{Due, Duty};
use ff_core::decide::cancel::Cancel;
use ff_core::decide::complete::Complete;
use ff_core::decide::progress::ReportProgress;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::{CancelledBy, Ending, Progress};
use ff_core::fold::BlobRef;
use ff_core::state::{AttemptState, BlockingReason, EligibilityState, OwnershipState};
use ff_core::state::{Phase, PublicState, StateVector, TerminalOutcome};
use ff_core::text::Encoding;
use serde_json::json;

use super::calls::{SIZES, cancellation, completion, progress, retrying, worker_calls};
use crate::world::{World, code};

/// Progress is there for people to see, and changes nothing else.
pub async fn progress_is_recorded(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(10);
    let message = Some("half way, 日本".to_owned());
    let percent = Some(50);
    let report = ReportProgress { id, fence, percent, message: message.clone(), after: None };
    assert_eq!(w.run(report).await, Ok(()));
    let snapshot = w.snapshot(id).await;
    let at = w.now();
    assert_eq!(snapshot.progress, Some(Progress { percent, message, at }));
    assert_eq!(snapshot.last_mutation_at, w.now());
    assert_eq!(snapshot.public_state, PublicState::Active);
    assert!(w.event_names(id).await.is_empty());
}

/// Nothing and everything are valid percentages; each report replaces the one before.
pub async fn progress_replaces_what_was_said_before(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    for percent in [100, 0] {
        assert_eq!(w.run(progress(id, fence, percent)).await, Ok(()));
        let said = w.get(id).await.progress.clone().expect("it was reported");
        assert_eq!((said.percent, said.message), (Some(percent), None));
    }
}

/// A new attempt starts from nothing; the same attempt goes on from where it was.
pub async fn progress_belongs_to_an_attempt(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    w.run(progress(id, fence, 40)).await.expect("it is held");
    w.delay(id, fence, w.now()).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    let said = w.get(id).await.progress.clone().expect("the attempt goes on");
    assert_eq!(said.percent, Some(40));
    w.fail(id, fence).await.expect("it is held");
    w.take(id).await;
    assert_eq!(w.get(id).await.progress, None);
}

/// Success reaches every dimension of the state at once.
pub async fn completing_ends_it_in_every_dimension(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(10);
    assert_eq!(w.complete(id, fence).await, Ok(()));
    let expected = StateVector {
        lifecycle_phase: Phase::Terminal,
        ownership_state: OwnershipState::Unowned,
        eligibility_state: EligibilityState::NotApplicable,
        blocking_reason: BlockingReason::None,
        terminal_outcome: Some(TerminalOutcome::Success),
        attempt_state: AttemptState::AttemptTerminal,
        public_state: PublicState::Completed,
        blocking_detail: None,
    };
    assert_eq!(w.vector(id).await, expected);
    let snapshot = w.snapshot(id).await;
    assert_eq!(snapshot.completed_at, Some(w.now()));
    assert_eq!(snapshot.current_lease, None);
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await.as_deref(), Some(&b"out"[..]));
}

/// The one completion event says what ended and how.
pub async fn completing_appends_one_completion(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.complete(id, fence).await.expect("it is held");
    let events = w.events(id).await;
    let completion = EventKind::Completion {
        outcome: TerminalOutcome::Success,
        attempt_index: Some(0),
        reason: None,
    };
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0].kind, events[0].at), (&completion, w.now()));
}

/// Success needs no result, and no result is not an empty one.
pub async fn no_result_and_an_empty_result_differ(w: Arc<World>) {
    for (result, stored) in [(None, None), (Some(Bytes::new()), Some(Bytes::new()))] {
        let (id, fence) = w.running(json!({})).await;
        let has = result.is_some();
        let encoding = None;
        let done = w.run(Complete { id, fence, result, encoding }).await;
        assert_eq!(done, Ok(()));
        assert!(
            matches!(w.ending(id).await.ending, Ending::Success { result, .. } if result == has)
        );
        assert_eq!(w.blob(BlobRef::Result(id, 0)).await, stored);
    }
}

/// Results are bytes, not text.
pub async fn a_binary_result_is_kept_byte_for_byte(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let bytes: Bytes = (0..=255).rev().collect();
    let encoding = Encoding::new("raw").ok();
    let result = Some(bytes.clone());
    let complete = Complete { id, fence, result, encoding: encoding.clone() };
    assert_eq!(w.run(complete).await, Ok(()));
    let found = w.store.backend.blobs(&[BlobRef::Result(id, 0)]).await;
    let found = found.expect("the store works");
    assert_eq!((&found[0].bytes, &found[0].encoding), (&bytes, &encoding));
}

/// A worker that lost the answer may say it again. With another result it is told so, of large results
/// as of small ones and of none; what it said first counts.
pub async fn a_repeated_completion_with_another_result_is_refused(w: Arc<World>) {
    let encoding = |name: &str| Encoding::new(name).ok();
    for size in SIZES {
        let (id, fence) = w.running(json!({})).await;
        let first = Complete { encoding: encoding("a"), ..completion(id, fence, &vec![1; size]) };
        assert_eq!(w.run(first.clone()).await, Ok(()));
        let before = w.rows();
        w.pass(1_000);
        let others = [
            completion(id, fence, &vec![2; size]),
            completion(id, fence, &vec![1; size + 1]),
            Complete { encoding: encoding("b"), ..first.clone() },
            Complete { encoding: None, ..first.clone() },
            Complete { encoding: None, result: None, ..first.clone() },
        ];
        for other in others {
            let refused = w.run(other).await.expect_err("it is another result");
            assert_eq!(refused.code, Code::ResultConflict);
            let outcome = refused.standing.and_then(|standing| standing.outcome);
            assert_eq!(outcome, Some(TerminalOutcome::Success));
        }
        assert_eq!(w.run(first).await, Ok(()), "the same is success again");
        assert_eq!(w.rows(), before);
    }
    let (id, fence) = w.running(json!({})).await;
    let empty = Complete { id, fence, result: None, encoding: None };
    assert_eq!(w.run(empty).await, Ok(()));
    assert_eq!(code(w.run(completion(id, fence, b"late")).await), Code::ResultConflict);
}

/// The first result is the one that is read, and its completion is told once.
pub async fn a_repeated_completion_keeps_the_first_result(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    assert_eq!(w.run(completion(id, fence, b"first")).await, Ok(()));
    let at = w.ending(id).await.at;
    w.pass(1_000);
    assert_eq!(code(w.run(completion(id, fence, b"second")).await), Code::ResultConflict);
    assert_eq!(w.ending(id).await.at, at);
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await.as_deref(), Some(&b"first"[..]));
    assert_eq!(w.event_names(id).await, ["completion"]);
}

/// A finished execution is not queued again, ended again or handed to anyone.
pub async fn nothing_a_worker_says_reopens_a_completed_one(w: Arc<World>) {
    let (id, fence) = w.running(retrying(5, 0)).await;
    w.complete(id, fence).await.expect("it is held");
    let before = w.rows();
    for call in worker_calls(id, fence) {
        if call.name() == "complete_execution" {
            continue; // The repeat is a success, as another case shows.
        }
        let refused = w.send(call).await.expect_err("it has ended");
        assert_eq!(refused.code, Code::ExecutionNotActive);
        let standing = refused.standing.expect("it says where it stands");
        assert_eq!(standing.outcome, Some(TerminalOutcome::Success));
        assert_eq!((standing.lease_epoch, standing.attempts), (fence.lease_epoch + 1, 1));
    }
    assert_eq!(w.rows(), before);
}

/// Success after a failure comes too late, and is told what happened.
pub async fn completing_what_failed_tells_that_it_failed(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.fail(id, fence).await.expect("it is held");
    let refused = w.complete(id, fence).await.expect_err("it has failed");
    assert_eq!(refused.code, Code::ExecutionNotActive);
    let standing = refused.standing.expect("it says where it stands");
    assert_eq!(standing.outcome, Some(TerminalOutcome::Failed));
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await, None);
}

/// What has ended waits for nothing but its removal.
pub async fn a_completed_execution_leaves_no_duty_but_retention(w: Arc<World>) {
    let timeouts = json!({"attempt_timeout_ms": 50, "execution_deadline_ms": 60});
    w.finished(json!({"timeout_policy": timeouts})).await;
    w.pass(1_000_000);
    for duty in [Duty::LeaseExpiry, Duty::AttemptTimeout, Duty::Deadline] {
        assert_eq!(w.due(duty, 10).await, Due::default(), "{duty}");
    }
    assert!(w.due(Duty::Retention, 10).await.next.is_some());
}

/// The holder may decide that the work is not to be done.
pub async fn the_holder_cancels_its_execution(w: Arc<World>) {
    let (id, fence) = w.running(retrying(5, 0)).await;
    let cancel = Cancel { fence: Some(fence), ..cancellation(id) };
    assert_eq!(w.run(cancel).await, Ok(()));
    let vector = w.vector(id).await;
    assert_eq!(vector.terminal_outcome, Some(TerminalOutcome::Cancelled));
    assert_eq!(vector.public_state, PublicState::Cancelled);
    assert_eq!(vector.attempt_state, AttemptState::AttemptTerminal);
    let snapshot = w.snapshot(id).await;
    assert_eq!(snapshot.cancelled_by, Some(CancelledBy::Worker));
    assert_eq!(snapshot.ended_because.as_deref(), Some("changed my mind"));
    assert_eq!(snapshot.current_lease, None);
    assert_eq!(w.event_names(id).await, ["completion"]);
    assert_eq!(code(w.renew(id, fence).await), Code::ExecutionNotActive);
}

/// An operator who cancels what its worker cancelled changes nothing about who did.
pub async fn the_first_to_cancel_is_remembered(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let cancel = Cancel { fence: Some(fence), ..cancellation(id) };
    w.run(cancel.clone()).await.expect("it is held");
    let before = w.rows();
    w.pass(10);
    let reason = "another reason".to_owned();
    assert_eq!(w.run(Cancel { reason, ..cancellation(id) }).await, Ok(()));
    assert_eq!(w.run(cancel).await, Ok(()));
    assert_eq!(w.rows(), before);
}

/// A worker cannot claim an operator's cancellation as its own.
pub async fn a_worker_is_told_that_an_operator_cancelled(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.cancel(id).await.expect("it is held");
    for call in worker_calls(id, fence) {
        let refused = w.send(call).await.expect_err("it was cancelled");
        assert_eq!(refused.code, Code::ExecutionNotActive);
        let standing = refused.standing.expect("it says where it stands");
        assert_eq!(standing.outcome, Some(TerminalOutcome::Cancelled));
    }
    assert_eq!(w.snapshot(id).await.cancelled_by, Some(CancelledBy::Operator));
}
