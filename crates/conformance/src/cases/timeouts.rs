//! Time limits: of one attempt, which is a failure, and of the whole, which is the end.

use std::sync::Arc;

use ff_core::Policy;
use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::Failed;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::create::Create;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::lease_expiry::LeaseChecked;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::{AttemptOutcome, Ending};
use ff_core::state::{PublicState, TerminalOutcome};
use serde_json::{Value, json};

use crate::world::{TTL_MS, World, code};

const TTL: i64 = TTL_MS.cast_signed();

fn timing_out(ms: u64, max_retries: u32) -> Value {
    let backoff = json!({"type": "fixed", "delay_ms": 100});
    json!({"timeout_policy": {"attempt_timeout_ms": ms},
           "retry_policy": {"max_retries": max_retries, "backoff": backoff}})
}

/// Too slow is a failure like any other, and the policy decides what follows.
pub async fn an_attempt_over_its_time_is_retried(w: Arc<World>) {
    let (id, fence) = w.running(timing_out(1_000, 1)).await;
    w.pass(999);
    assert!(w.tick(Duty::AttemptTimeout).await.is_empty());
    w.pass(1);
    let delay_until = w.now().plus(100);
    let next_attempt_index = 1;
    let failed = Failed::RetryScheduled { delay_until, next_attempt_index };
    let outcomes = w.tick(Duty::AttemptTimeout).await;
    assert_eq!(outcomes, [Ok(Reply::TimeOutAttempt(Some(failed)))]);
    assert_eq!(w.event_names(id).await, ["lease_revoked", "attempt_failed"]);
    assert_eq!(code(w.complete(id, fence).await), Code::LeaseRevoked);
    let kept = w.attempts(id).await.remove(0);
    assert_eq!(kept.outcome, AttemptOutcome::Failure);
    assert_eq!(kept.failure.map(|f| f.category.to_string()).as_deref(), Some("timeout"));
}

/// Without a retry it has failed: it is not the deadline that passed.
pub async fn an_attempt_over_its_time_may_be_the_last(w: Arc<World>) {
    let (id, _) = w.running(timing_out(1_000, 0)).await;
    w.pass(1_000);
    let outcomes = w.tick(Duty::AttemptTimeout).await;
    assert_eq!(outcomes, [Ok(Reply::TimeOutAttempt(Some(Failed::TerminalFailed)))]);
    assert_eq!(w.state(id).await, PublicState::Failed);
    let Ending::Failed(failure) = w.ending(id).await.ending else {
        panic!("it failed");
    };
    assert_eq!(failure.reason, "attempt_timeout");
    assert_eq!(w.event_names(id).await, ["lease_revoked", "completion"]);
}

/// A worker that lives is still too slow.
pub async fn renewing_does_not_buy_the_attempt_time(w: Arc<World>) {
    let (id, fence) = w.running(timing_out(1_000, 0)).await;
    w.pass(900);
    w.renew(id, fence).await.expect("it is held");
    w.pass(100);
    w.tick(Duty::AttemptTimeout).await;
    assert_eq!(w.state(id).await, PublicState::Failed);
}

/// A new attempt has its full time, after a failure and after a lost lease.
pub async fn each_attempt_has_its_full_time(w: Arc<World>) {
    let (id, fence) = w.running(timing_out(TTL_MS * 2, 1)).await;
    w.pass(TTL - 1);
    w.fail(id, fence).await.expect("it is held");
    w.pass(100);
    w.take(id).await;
    let full = Some(w.now().plus(TTL_MS * 2));
    assert_eq!(w.active(id).await.timeout_at, full);
    w.pass(TTL);
    w.tick(Duty::LeaseExpiry).await;
    w.take(id).await;
    let full = Some(w.now().plus(TTL_MS * 2));
    assert_eq!(w.active(id).await.timeout_at, full);
    assert_eq!(w.due(Duty::AttemptTimeout, 10).await.next, full);
}

/// Only running time counts.
pub async fn waiting_does_not_use_up_an_attempt(w: Arc<World>) {
    let (id, fence) = w.running(timing_out(1_000, 0)).await;
    w.pass(400);
    w.delay(id, fence, w.now().plus(50_000)).await.expect("it is held");
    w.pass(50_000);
    assert!(w.tick(Duty::AttemptTimeout).await.is_empty());
    let fence = w.take(id).await.leased.fence;
    w.pass(500);
    w.delay(id, fence, w.now()).await.expect("it is held");
    w.take(id).await;
    assert_eq!(w.active(id).await.timeout_at, Some(w.now().plus(100)));
    w.pass(100);
    w.tick(Duty::AttemptTimeout).await;
    assert_eq!(w.state(id).await, PublicState::Failed);
}

/// The check looks again before it acts.
pub async fn a_timeout_checked_too_early_does_nothing(w: Arc<World>) {
    let (id, fence) = w.running(timing_out(1_000, 0)).await;
    w.pass(999);
    assert_eq!(w.run(TimeOutAttempt { id }).await, Ok(None));
    w.complete(id, fence).await.expect("it is held");
    w.pass(1_000);
    assert_eq!(w.run(TimeOutAttempt { id }).await, Ok(None));
    assert_eq!(w.state(id).await, PublicState::Completed);
}

/// A dead worker is not a slow one: the order of the duties does not decide which.
pub async fn a_lost_lease_is_not_a_timeout(w: Arc<World>) {
    for duties in [
        [Duty::AttemptTimeout, Duty::Deadline, Duty::LeaseExpiry],
        [Duty::LeaseExpiry, Duty::AttemptTimeout, Duty::Deadline],
    ] {
        let (id, _) = w.running(json!({})).await;
        w.pass(TTL);
        for duty in duties {
            w.tick(duty).await;
        }
        assert_eq!(w.state(id).await, PublicState::Waiting);
        let counts = w.get(id).await.counts;
        assert_eq!((counts.reclaims, counts.retries), (1, 0));
        let fence = w.take(id).await.leased.fence;
        w.complete(id, fence).await.expect("it is held");
    }
}

/// What nobody started in time expires, and is not handed out afterwards.
pub async fn a_deadline_expires_what_waits(w: Arc<World>) {
    let deadline_at = Some(w.now().plus(1_000));
    let id = w.create(Create { deadline_at, ..w.draft() }).await;
    w.pass(999);
    assert!(w.tick(Duty::Deadline).await.is_empty());
    w.pass(1);
    assert_eq!(w.tick(Duty::Deadline).await, [Ok(Reply::ExpireExecution(true))]);
    assert_eq!(w.state(id).await, PublicState::Expired);
    let events = w.events(id).await;
    let completion = EventKind::Completion {
        outcome: TerminalOutcome::Expired,
        attempt_index: None,
        reason: Some("execution_deadline".to_owned()),
    };
    assert_eq!(events.into_iter().map(|e| e.kind).collect::<Vec<_>>(), [completion]);
    assert!(w.claim_one().await.is_none());
}

/// What runs is stopped: its worker cannot write any more.
pub async fn a_deadline_expires_what_runs(w: Arc<World>) {
    let deadline_at = Some(w.now().plus(1_000));
    let id = w.create(Create { deadline_at, ..w.draft() }).await;
    let fence = w.take(id).await.leased.fence;
    w.pass(1_000);
    w.tick(Duty::Deadline).await;
    let refused = w.complete(id, fence).await.expect_err("it has expired");
    assert_eq!(refused.code, Code::ExecutionNotActive);
    let standing = refused.standing.expect("it says where it stands");
    assert_eq!(standing.outcome, Some(TerminalOutcome::Expired));
    assert_eq!(w.event_names(id).await, ["lease_revoked", "completion"]);
}

/// Neither a delay nor a hold nor a backoff outlasts the deadline.
pub async fn a_deadline_expires_what_is_kept_waiting(w: Arc<World>) {
    let deadline_at = Some(w.now().plus(1_000));
    let policy = json!({"retry_policy": {"backoff": {"type": "fixed", "delay_ms": 90_000}}});
    let policy = Policy::parse(&policy).expect("a valid policy");
    let draft = || Create { deadline_at, policy: policy.clone(), ..w.draft() };
    let failing = w.create(draft()).await;
    let fence = w.take(failing).await.leased.fence;
    w.fail(failing, fence).await.expect("it is held");
    let held = w.create(draft()).await;
    w.hold(held).await.expect("it waits");
    let delay_until = Some(w.now().plus(5_000));
    let delayed = w.create(Create { delay_until, ..draft() }).await;
    w.pass(1_000);
    assert_eq!(w.tick(Duty::Deadline).await.len(), 3);
    w.pass(100_000);
    for id in [failing, held, delayed] {
        assert_eq!(w.state(id).await, PublicState::Expired);
    }
    assert!(w.claim_one().await.is_none());
    assert_eq!(w.promote().await, None);
}

/// A relative deadline counts from the creation, not from the first claim.
pub async fn a_relative_deadline_counts_from_creation(w: Arc<World>) {
    let created = w.now();
    let policy = json!({"timeout_policy": {"execution_deadline_ms": 1_000}});
    let id = w.create_with(policy).await;
    w.pass(600);
    w.take(id).await;
    assert_eq!(w.get(id).await.deadline_at, Some(created.plus(1_000)));
    w.pass(400);
    assert_eq!(w.tick(Duty::Deadline).await, [Ok(Reply::ExpireExecution(true))]);
}

/// A replay could not tell which of two deadlines to start again.
pub async fn two_deadlines_exclude_each_other(w: Arc<World>) {
    let policy = json!({"timeout_policy": {"execution_deadline_ms": 700}});
    let draft = Create {
        policy: Policy::parse(&policy).expect("a valid policy"),
        deadline_at: Some(w.now().plus(300)),
        ..w.draft()
    };
    let id = draft.id;
    let refused = w.run(draft).await.expect_err("one deadline is enough");
    assert_eq!(refused.code, Code::InvalidInput);
    assert_eq!(refused.field, Some("execution_deadline_at"));
    assert_eq!(w.find(id).await, None);
}

/// What ended in time is left alone.
pub async fn a_deadline_that_was_met_changes_nothing(w: Arc<World>) {
    let deadline_at = Some(w.now().plus(1_000));
    let id = w.create(Create { deadline_at, ..w.draft() }).await;
    w.pass(999);
    assert_eq!(w.run(ExpireExecution { id }).await, Ok(false));
    let fence = w.take(id).await.leased.fence;
    w.complete(id, fence).await.expect("it is held");
    w.pass(1);
    assert_eq!(w.run(ExpireExecution { id }).await, Ok(false));
    assert_eq!(w.state(id).await, PublicState::Completed);
    assert_eq!(w.event_names(id).await, ["completion"]);
}

/// The sweep of leases ends what timed out first as the timeout would, and nothing is left to do.
pub async fn the_sweep_ends_an_attempt_that_timed_out_first(w: Arc<World>) {
    let (id, fence) = w.running(timing_out(1_000, 1)).await;
    w.pass(TTL);
    let delay_until = w.now().plus(100);
    let next_attempt_index = 1;
    let failed = Failed::RetryScheduled { delay_until, next_attempt_index };
    let outcomes = w.tick(Duty::LeaseExpiry).await;
    assert_eq!(outcomes, [Ok(Reply::ExpireLease(LeaseChecked::TimedOut(failed)))]);
    assert_eq!(w.event_names(id).await, ["lease_revoked", "attempt_failed"]);
    assert_eq!(code(w.complete(id, fence).await), Code::LeaseRevoked);
    let counts = w.get(id).await.counts;
    assert_eq!((counts.reclaims, counts.retries), (0, 1));
    assert!(w.tick(Duty::AttemptTimeout).await.is_empty());
}

/// Which duty comes first must not decide what becomes of a dead worker's attempt.
pub async fn a_lost_lease_and_a_timeout_end_the_same_in_any_order(w: Arc<World>) {
    let orders: [&[Duty]; 3] = [
        &[Duty::AttemptTimeout, Duty::LeaseExpiry],
        &[Duty::LeaseExpiry, Duty::AttemptTimeout],
        &[Duty::LeaseExpiry],
    ];
    let ttl = i64::try_from(TTL_MS).expect("a short lease");
    for (timeout, ended) in [
        (1_000, PublicState::Failed),
        (TTL_MS, PublicState::Failed),
        (TTL_MS + 1_000, PublicState::Waiting),
    ] {
        for duties in orders {
            let policy = json!({"timeout_policy": {"attempt_timeout_ms": timeout}});
            let (id, _) = w.running(policy).await;
            w.pass(2 * ttl);
            for duty in duties {
                w.tick(*duty).await;
            }
            assert_eq!(w.state(id).await, ended, "{duties:?} with a timeout of {timeout}");
            w.cancel(id).await.ok();
        }
    }
}
