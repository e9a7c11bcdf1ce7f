//! Failures: when another attempt follows, when it begins, and what history keeps.

use ff_core::Code;
use ff_core::decide::Failed;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::claim::Claim;
use ff_core::decide::fail::Fail;
use ff_core::event::{EventKind, EventName};
use ff_core::execution::{AttemptKind, AttemptOutcome, State};
use ff_core::policy::FailureClass;
use ff_core::state::{AttemptState, BlockingReason, PublicState};
use ff_core::text::Category;
use serde_json::{Value, json};

use crate::commands::{complete, fail};
use crate::samples::{ATTEMPT_MS, BACKOFF_MS, policy};
use crate::world::{Dice, LEASE_TTL_MS, Life};

fn claimed(policy: &Value) -> Life {
    let mut life = Life::under(policy);
    life.claim();
    life
}

fn retrying(max_retries: u32, categories: &[&str]) -> Value {
    json!({"retry_policy": {
        "max_retries": max_retries,
        "backoff": {"type": "fixed", "delay_ms": BACKOFF_MS},
        "retryable_categories": categories,
    }})
}

/// Fails a fresh execution; tells whether another attempt follows.
fn is_retried(policy: &Value, class: FailureClass, category: &str) -> bool {
    let mut life = claimed(policy);
    let failed = life.tell(Fail {
        category: Category::new(category).unwrap(),
        ..fail(life.id, life.fence, class)
    });
    match failed {
        Failed::RetryScheduled { .. } => true,
        Failed::TerminalFailed => false,
    }
}

#[test]
fn a_retry_needs_a_class_a_category_and_a_retry_that_is_left() {
    for (class, may_help) in [
        (FailureClass::Transient, true),
        (FailureClass::InfraCrash, true),
        (FailureClass::Timeout, true),
        (FailureClass::Permanent, false),
        (FailureClass::Cancelled, false),
    ] {
        for (categories, listed) in [(&[][..], true), (&["bank", "net"], true), (&["net"], false)] {
            for max_retries in [0, 1] {
                let policy = retrying(max_retries, categories);
                let expected = may_help && listed && max_retries > 0;
                let found = is_retried(&policy, class, "bank");
                assert_eq!(found, expected, "{class:?} {categories:?} {max_retries}");
            }
        }
    }
}

#[test]
fn without_a_retry_policy_there_is_no_retry() {
    assert!(!is_retried(&json!({}), FailureClass::Transient, "bank"));
}

#[test]
fn every_retry_is_counted_until_none_is_left() {
    let mut life = Life::under(&retrying(2, &[]));
    let mut retries = Vec::new();
    for _ in 0..3 {
        life.claim();
        life.tell(fail(life.id, life.fence, FailureClass::Transient));
        retries.push(life.x().counts.retries);
        life.pass(BACKOFF_MS);
    }
    assert_eq!(retries, [1, 2, 2]);
    assert_eq!(life.states().0, PublicState::Failed);
    assert_eq!(life.x().counts.attempts, 3);
    let expected = [EventName::AttemptFailed, EventName::AttemptFailed, EventName::Completion];
    assert_eq!(life.told(), expected);
}

#[test]
fn a_failed_attempt_waits_for_its_backoff() {
    let mut life = claimed(&retrying(1, &[]));
    let failed = life.tell(fail(life.id, life.fence, FailureClass::Transient));
    let delay_until = life.world.now.plus(BACKOFF_MS);
    let next_attempt_index = 1;
    assert_eq!(failed, Failed::RetryScheduled { delay_until, next_attempt_index });
    let vector = life.vector();
    assert_eq!(vector.public_state, PublicState::Delayed);
    assert_eq!(vector.attempt_state, AttemptState::PendingRetryAttempt);
    assert_eq!(vector.blocking_reason, BlockingReason::WaitingForRetryBackoff);
    life.pass(BACKOFF_MS);
    assert_eq!(life.states().0, PublicState::Waiting);
}

#[test]
fn a_backoff_grows_with_every_retry_up_to_its_bound() {
    let mut life = Life::under(&json!({"retry_policy": {"max_retries": 4, "backoff": {
        "type": "exponential", "initial_delay_ms": 100, "max_delay_ms": 350, "multiplier": 2.0,
    }}}));
    let mut waits = Vec::new();
    for _ in 0..4 {
        life.claim();
        let failed = life.tell(fail(life.id, life.fence, FailureClass::Transient));
        let Failed::RetryScheduled { delay_until, .. } = failed else { panic!("{failed:?}") };
        waits.push(delay_until.since(life.world.now));
        life.world.now = delay_until;
    }
    assert_eq!(waits, [100, 200, 350, 350]);
}

#[test]
fn jitter_comes_from_the_dice_and_from_nowhere_else() {
    let spread = json!({"retry_policy": {"backoff": {
        "type": "fixed", "delay_ms": 1_000_000, "jitter": true,
    }}});
    let delay = |seed| {
        let mut life = claimed(&spread);
        life.world.dice = Dice(seed);
        life.tell(fail(life.id, life.fence, FailureClass::Transient))
    };
    assert_eq!(delay(1), delay(1));
    assert_ne!(delay(1), delay(2));
}

#[test]
fn the_next_attempt_knows_what_the_last_one_failed_with() {
    let mut life = claimed(&retrying(1, &[]));
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    let record = life.history[0].clone();
    assert_eq!(record.outcome, AttemptOutcome::Failure);
    assert_eq!(record.failure.as_ref().unwrap().reason, "the bank is closed");
    life.pass(BACKOFF_MS);
    life.claim();
    let State::Active(active) = &life.x().state else { panic!("{:?}", life.x()) };
    assert_eq!(active.attempt.kind, AttemptKind::Retry);
    assert_eq!(active.attempt.index, 1);
    assert_eq!(active.attempt.after, record.failure);
}

/// Claimed for long enough, and the attempt's time is up.
fn overtime(policy: &Value) -> Life {
    let mut life = Life::under(policy);
    let claim = Claim { lease_ttl_ms: ATTEMPT_MS + LEASE_TTL_MS, ..life.next_claim() };
    life.take(claim);
    life.pass(ATTEMPT_MS);
    life
}

#[test]
fn an_attempt_that_used_up_its_time_has_failed_and_is_retried() {
    let mut life = overtime(&policy());
    let failed = life.tell(TimeOutAttempt { id: life.id });
    assert!(matches!(failed, Some(Failed::RetryScheduled { .. })));
    let states = (PublicState::Delayed, AttemptState::PendingRetryAttempt);
    assert_eq!(life.states(), states);
    assert_eq!(life.x().counts.retries, 1);
    assert_eq!(life.told(), [EventName::LeaseRevoked, EventName::AttemptFailed]);
    let failure = life.history[0].failure.as_ref().unwrap();
    assert_eq!(failure.reason, "attempt_timeout");
    assert_eq!(failure.category.as_str(), "timeout");
    let late = life.refused(complete(life.id, life.fence));
    assert_eq!(late.code, Code::LeaseRevoked);
}

#[test]
fn an_attempt_timeout_without_a_retry_left_fails_the_execution() {
    let mut life = overtime(&json!({"timeout_policy": {"attempt_timeout_ms": ATTEMPT_MS}}));
    let failed = life.tell(TimeOutAttempt { id: life.id });
    assert_eq!(failed, Some(Failed::TerminalFailed));
    assert_eq!(life.states().0, PublicState::Failed);
    assert_eq!(life.told(), [EventName::LeaseRevoked, EventName::Completion]);
}

#[test]
fn an_attempt_timeout_is_of_the_category_timeout() {
    let timed = |categories: &[&str]| {
        let mut policy = retrying(1, categories);
        policy["timeout_policy"] = json!({"attempt_timeout_ms": ATTEMPT_MS});
        let mut life = overtime(&policy);
        life.tell(TimeOutAttempt { id: life.id })
    };
    assert_eq!(timed(&["bank"]), Some(Failed::TerminalFailed));
    assert!(matches!(timed(&["timeout"]), Some(Failed::RetryScheduled { .. })));
}

#[test]
fn an_attempt_in_time_or_already_over_does_not_time_out() {
    let mut life = overtime(&policy());
    life.world.now = life.world.now.minus(1);
    assert_eq!(life.repeat(TimeOutAttempt { id: life.id }), None);
    life.pass(1);
    life.tell(TimeOutAttempt { id: life.id });
    assert_eq!(life.repeat(TimeOutAttempt { id: life.id }), None);
    life.pass(BACKOFF_MS);
    life.claim();
    assert_eq!(life.repeat(TimeOutAttempt { id: life.id }), None);
}

#[test]
fn an_attempt_failed_event_says_when_the_next_one_may_begin() {
    let mut life = claimed(&retrying(1, &[]));
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    let EventKind::AttemptFailed { attempt_index, retry_at, .. } = life.events[0].kind else {
        panic!("{:?}", life.events)
    };
    assert_eq!(attempt_index, 0);
    assert_eq!(retry_at, life.world.now.plus(BACKOFF_MS));
}
