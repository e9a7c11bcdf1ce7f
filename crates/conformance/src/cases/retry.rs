//! Failing and trying again: when, how often, and after how long.

use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::decide::Failed;
use ff_core::decide::claim::ClaimKind;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::{AttemptKind, AttemptOutcome, Ending, Failure};
use ff_core::policy::FailureClass;
use ff_core::state::TerminalOutcome;
use ff_core::state::{AttemptState, BlockingReason, EligibilityState, PublicState};
use ff_core::text::Category;
use ff_core::time::Millis;
use serde_json::json;

use super::calls::{failure, retrying};
use crate::world::{World, code, worker};

fn oops() -> Failure {
    Failure {
        reason: "it broke".to_owned(),
        category: Category::new("oops").expect("a valid category"),
    }
}

fn again(delay_until: Millis, next_attempt_index: u32) -> Failed {
    Failed::RetryScheduled { delay_until, next_attempt_index }
}

/// Claims it, fails it, and skips the wait; how long that was.
async fn fail_and_wait(w: &World, id: ExecutionId) -> u64 {
    let fence = w.take(id).await.leased.fence;
    let Ok(Failed::RetryScheduled { delay_until, .. }) = w.fail(id, fence).await else {
        panic!("a retry is left");
    };
    let delay_ms = delay_until.since(w.now());
    w.pass(i64::try_from(delay_ms).expect("a short time"));
    delay_ms
}

/// Nobody asked for a retry, so there is none.
pub async fn without_a_policy_a_failure_is_final(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    assert_eq!(w.fail(id, fence).await, Ok(Failed::TerminalFailed));
    let vector = w.vector(id).await;
    assert_eq!(vector.terminal_outcome, Some(TerminalOutcome::Failed));
    assert_eq!(vector.public_state, PublicState::Failed);
    assert_eq!(vector.attempt_state, AttemptState::AttemptTerminal);
    assert_eq!(w.ending(id).await.ending, Ending::Failed(oops()));
    let events = w.events(id).await;
    let completion = EventKind::Completion {
        outcome: TerminalOutcome::Failed,
        attempt_index: Some(0),
        reason: Some("it broke".to_owned()),
    };
    assert_eq!(events.into_iter().map(|e| e.kind).collect::<Vec<_>>(), [completion]);
}

/// A failed attempt is followed by another, not before its time and not never.
pub async fn a_failure_is_retried_after_its_backoff(w: Arc<World>) {
    let (id, fence) = w.running(retrying(3, 5_000)).await;
    let until = w.now().plus(5_000);
    assert_eq!(w.fail(id, fence).await, Ok(again(until, 1)));
    let vector = w.vector(id).await;
    assert_eq!(vector.public_state, PublicState::Delayed);
    assert_eq!(vector.eligibility_state, EligibilityState::NotEligibleUntilTime);
    assert_eq!(vector.blocking_reason, BlockingReason::WaitingForRetryBackoff);
    assert_eq!(vector.attempt_state, AttemptState::PendingRetryAttempt);
    w.pass(4_999);
    assert!(w.claim_one().await.is_none());
    w.pass(1);
    let leased = w.take_as(id, "w2").await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Retried, 1));
    assert_eq!(w.active(id).await.attempt.kind, AttemptKind::Retry);
}

/// The next worker is told what went wrong.
pub async fn a_retry_knows_the_failure_before_it(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    w.fail(id, fence).await.expect("it is held");
    assert_eq!(w.snapshot(id).await.failure, Some(oops()));
    w.take(id).await;
    assert_eq!(w.active(id).await.attempt.after, Some(oops()));
}

/// Retries are counted, and end.
pub async fn retries_run_out(w: Arc<World>) {
    let id = w.create_with(retrying(2, 10)).await;
    for retries in 1..=2 {
        fail_and_wait(&w, id).await;
        assert_eq!(w.get(id).await.counts.retries, retries);
    }
    let fence = w.take(id).await.leased.fence;
    assert_eq!(w.fail(id, fence).await, Ok(Failed::TerminalFailed));
    assert_eq!(w.get(id).await.counts.attempts, 3);
    let names = w.event_names(id).await;
    assert_eq!(names, ["attempt_failed", "attempt_failed", "completion"]);
}

/// Delays grow, stop growing, and are whole milliseconds whatever the factor.
pub async fn backoff_grows_up_to_its_limit(w: Arc<World>) {
    let backoff = json!({"type": "exponential", "initial_delay_ms": 101, "multiplier": 1.5,
                         "max_delay_ms": 300});
    let policy = json!({"retry_policy": {"max_retries": 5, "backoff": backoff}});
    let id = w.create_with(policy).await;
    let mut delays = Vec::new();
    for _ in 0..5 {
        delays.push(fail_and_wait(&w, id).await);
    }
    assert_eq!(delays, [101, 152, 227, 300, 300]);
}

/// What a policy leaves out has the documented value.
pub async fn an_empty_retry_policy_takes_the_defaults(w: Arc<World>) {
    let id = w.create_with(json!({"retry_policy": {}})).await;
    let mut delays = Vec::new();
    for _ in 0..3 {
        delays.push(fail_and_wait(&w, id).await);
    }
    assert_eq!(delays, [1_000, 2_000, 4_000]);
    let fence = w.take(id).await.leased.fence;
    assert_eq!(w.fail(id, fence).await, Ok(Failed::TerminalFailed));
}

/// Jitter is honoured: failures that came together do not return together.
pub async fn jitter_spreads_over_the_upper_half(w: Arc<World>) {
    let backoff = json!({"type": "fixed", "delay_ms": 100_000, "jitter": true});
    let mut delays = Vec::new();
    for _ in 0..16 {
        let (id, fence) = w.running(json!({"retry_policy": {"backoff": backoff}})).await;
        let Ok(Failed::RetryScheduled { delay_until, .. }) = w.fail(id, fence).await else {
            panic!("a retry is left");
        };
        delays.push(delay_until.since(w.now()));
    }
    assert!(delays.iter().all(|ms| (50_000..=100_000).contains(ms)), "{delays:?}");
    delays.sort_unstable();
    delays.dedup();
    assert!(delays.len() > 1, "{delays:?}");
}

/// Whether trying again can help depends on what went wrong.
pub async fn the_class_of_a_failure_decides(w: Arc<World>) {
    for (class, tried_again) in [
        (FailureClass::Transient, true),
        (FailureClass::InfraCrash, true),
        (FailureClass::Timeout, true),
        (FailureClass::Permanent, false),
        (FailureClass::Cancelled, false),
    ] {
        let (id, fence) = w.running(retrying(1, 1_000)).await;
        let failed = w.run(failure(id, fence, class, "oops")).await;
        let expected =
            if tried_again { again(w.now().plus(1_000), 1) } else { Failed::TerminalFailed };
        assert_eq!(failed, Ok(expected), "{class:?}");
    }
}

/// A policy may name the failures worth another try.
pub async fn only_listed_categories_are_retried(w: Arc<World>) {
    let backoff = json!({"type": "fixed", "delay_ms": 1_000});
    let policy = json!({"retry_policy": {"retryable_categories": ["net", "disk"],
                                         "backoff": backoff}});
    for (category, tried_again) in [("net", true), ("disk", true), ("oops", false)] {
        let (id, fence) = w.running(policy.clone()).await;
        let fail = failure(id, fence, FailureClass::Transient, category);
        let failed = w.run(fail).await.expect("it is held");
        assert_eq!(failed != Failed::TerminalFailed, tried_again, "{category}");
    }
}

/// History keeps who tried, when, and why it failed.
pub async fn a_failed_attempt_is_kept(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    let started_at = w.now();
    w.pass(70);
    w.fail(id, fence).await.expect("it is held");
    let kept = w.attempts(id).await;
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].index, kept[0].kind), (0, AttemptKind::Initial));
    assert_eq!(kept[0].worker, worker("w1"));
    assert_eq!((kept[0].started_at, kept[0].ended_at), (started_at, w.now()));
    assert_eq!(kept[0].outcome, AttemptOutcome::Failure);
    assert_eq!(kept[0].failure, Some(oops()));
}

/// The feed tells when the next attempt may begin.
pub async fn a_failed_attempt_is_announced_with_its_retry(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 300)).await;
    w.fail(id, fence).await.expect("it is held");
    let events = w.events(id).await;
    let failed =
        EventKind::AttemptFailed { attempt_index: 0, failure: oops(), retry_at: w.now().plus(300) };
    assert_eq!(events.into_iter().map(|e| e.kind).collect::<Vec<_>>(), [failed]);
}

/// A worker that lost the answer hears it again, and no retry is used up.
pub async fn a_repeated_failure_answers_the_same(w: Arc<World>) {
    let (id, fence) = w.running(retrying(2, 1_000)).await;
    let first = w.fail(id, fence).await;
    w.pass(2_000);
    assert_eq!(w.fail(id, fence).await, first);
    assert_eq!(w.get(id).await.counts.retries, 1);
    w.take_as(id, "w2").await;
    assert_eq!(code(w.fail(id, fence).await), Code::StaleLease);
    assert_eq!(w.active(id).await.attempt.worker, worker("w2"));
}

/// The end of the last retry is repeatable too.
pub async fn a_repeated_final_failure_answers_the_same(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.fail(id, fence).await.expect("it is held");
    w.pass(10);
    assert_eq!(w.fail(id, fence).await, Ok(Failed::TerminalFailed));
    assert_eq!(w.event_names(id).await, ["completion"]);
}

/// No backoff means no wait.
pub async fn a_retry_without_backoff_is_claimable_at_once(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    assert_eq!(w.fail(id, fence).await, Ok(again(w.now(), 1)));
    assert_eq!(w.state(id).await, PublicState::Waiting);
    assert_eq!(w.take(id).await.leased.kind, ClaimKind::Retried);
}
