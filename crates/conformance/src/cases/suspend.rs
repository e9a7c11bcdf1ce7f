//! Suspending: the slot is given back, and the same attempt goes on later.

use std::sync::Arc;

use ff_core::condition::ResumeCondition;
use ff_core::decide::cancel::Cancel;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::deliver::{Authority, DeliverSignal};
use ff_core::decide::replay::Replay;
use ff_core::decide::resume::Resume;
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::error::Code;
use ff_core::execution::{Fence, State};
use ff_core::query::{Page, Query, Rows, SuspendedSearch};
use ff_core::state::{AttemptState, BlockingReason, OwnershipState, PublicState};
use ff_core::suspension::{
    CloseReason, Effect, RequestedBy, SuspensionReason, TimeoutBehavior, WaitpointWord,
};
use ff_core::text::IdempotencyKey;
use ff_core::{ExecutionId, Millis};
use serde_json::json;

use super::steps::step;
use crate::world::waits::{Mailbox, mailboxes, single, soon, waitpoint_key};
use crate::world::{TTL_MS, World, code};

/// Nobody owns it, its attempt is paused, and it says what it waits for.
pub async fn a_suspended_execution_gives_its_slot_back(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let reason = SuspensionReason::WaitingForApproval;
    let deadline = soon(&w, 50);
    w.suspend(Suspend { reason, deadline, ..w.pause(id, fence) }).await;
    let vector = w.vector(id).await;
    assert_eq!(vector.ownership_state, OwnershipState::Unowned);
    assert_eq!(vector.attempt_state, AttemptState::AttemptInterrupted);
    assert_eq!(vector.blocking_reason, BlockingReason::WaitingForApproval);
    assert_eq!(w.state(id).await, PublicState::Suspended);
    assert_eq!(w.get(id).await.epoch, fence.lease_epoch + 1);
    assert!(w.claim_one().await.is_none(), "nothing is to be done");
    assert_eq!(w.event_names(id).await, ["suspended"]);
    assert_eq!(code(w.complete(id, fence).await), Code::ExecutionNotActive);
    assert_eq!(code(w.renew(id, fence).await), Code::ExecutionNotActive);
}

/// The same attempt, under a higher epoch, by whoever claims; the claim says what it is.
pub async fn a_resumed_execution_goes_on_with_its_attempt(w: Arc<World>) {
    let (first, mailbox) = w.waiting().await;
    let started_at = w.get(mailbox.id).await.started_at;
    w.pass(10);
    w.deliver(mailbox.signal(&w, "go")).await;
    let x = w.get(mailbox.id).await;
    assert_eq!(w.state(x.id).await, PublicState::Waiting);
    assert_eq!(w.vector(x.id).await.attempt_state, AttemptState::AttemptInterrupted);
    let claimed = w.take(x.id).await.leased;
    assert_eq!(claimed.kind, ClaimKind::Resumed);
    assert_eq!(claimed.fence.attempt_index, first.attempt_index);
    assert!(claimed.fence.lease_epoch > first.lease_epoch);
    assert_eq!(claimed.execution.started_at, started_at);
    assert_eq!(claimed.execution.counts.attempts, 1);
    assert_eq!(code(w.complete(x.id, first).await), Code::StaleLease);
    w.complete(x.id, claimed.fence).await.expect("it is held");
    assert_eq!(w.event_names(x.id).await, ["suspended", "signal", "completion"]);
}

/// It may wait again and again, always in the same attempt.
pub async fn an_execution_may_wait_many_times(w: Arc<World>) {
    let (id, mut fence) = w.running(json!({})).await;
    for round in 0..5 {
        let mailbox = w.suspend(w.pause(id, fence)).await.remove(0);
        assert_eq!(w.suspension(id).await.attempt_index, 0);
        w.deliver(mailbox.signal(&w, "go")).await;
        assert_eq!(code(w.run(mailbox.signal(&w, "late")).await), Code::WaitpointClosed);
        fence = w.take(id).await.leased.fence;
        assert_eq!(fence.attempt_index, 0, "round {round}");
    }
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(w.signals(id).await.len(), 5);
    assert!(w.attempts(id).await.is_empty());
}

/// An attempt that is retried after a suspension is another one.
pub async fn what_fails_after_a_suspension_is_retried_anew(w: Arc<World>) {
    let policy = json!({"retry_policy": {"max_retries": 1}});
    let (id, fence) = w.running(policy).await;
    let mailbox = w.suspend(w.pause(id, fence)).await.remove(0);
    w.deliver(mailbox.signal(&w, "go")).await;
    let fence = w.take(id).await.leased.fence;
    w.fail(id, fence).await.expect("it is held");
    w.pass(3_600_000);
    let again = w.take(id).await.leased;
    assert_eq!(again.fence.attempt_index, 1);
    assert_eq!(again.kind, ClaimKind::Retried);
}

/// Only who holds it may suspend it.
pub async fn a_stale_worker_cannot_suspend(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let wrong = Fence { lease_epoch: fence.lease_epoch + 2, ..fence };
    assert_eq!(code(w.run(w.pause(id, wrong)).await), Code::StaleLease);
    w.pass(i64::try_from(TTL_MS).expect("small") + 1);
    assert_eq!(code(w.run(w.pause(id, fence)).await), Code::LeaseExpired);
    let unknown = w.id();
    assert_eq!(code(w.run(w.pause(unknown, fence)).await), Code::ExecutionNotFound);
    assert!(matches!(w.get(id).await.state, State::Active(_)), "nothing was changed");
    assert!(w.listening(None).await.is_empty());
}

/// A second suspension says that there is one.
pub async fn what_is_suspended_cannot_be_suspended_again(w: Arc<World>) {
    let (fence, mailbox) = w.waiting().await;
    assert_eq!(code(w.run(w.pause(mailbox.id, fence)).await), Code::AlreadySuspended);
    assert_eq!(w.listening(None).await.len(), 1);
}

/// The same call again, after the answer was lost: the same answer, tokens included.
pub async fn a_suspension_sent_again_is_answered_alike(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let suspend = w.pause(id, fence);
    let first = w.run(suspend.clone()).await.expect("it is held");
    let again = w.run(suspend.clone()).await.expect("it is a repeat");
    assert_eq!(first, again);
    let mailbox = mailboxes(id, &first).remove(0);
    w.deliver(mailbox.signal(&w, "go")).await;
    let late = w.run(suspend.clone()).await.expect("it is a repeat still");
    assert_eq!(first, late);
    w.take(id).await;
    assert_eq!(code(w.run(suspend).await), Code::StaleLease);
}

/// Under a key the answer is the same even after the lease is long gone; on another execution the
/// key means nothing.
pub async fn a_key_makes_a_suspension_repeatable(w: Arc<World>) {
    let key = Some(IdempotencyKey::new("step-7").expect("a valid key"));
    let (id, fence) = w.running(json!({})).await;
    let suspend = Suspend { idempotency_key: key.clone(), ..w.pause(id, fence) };
    let first = w.run(suspend.clone()).await.expect("it is held");
    let mailbox = mailboxes(id, &first).remove(0);
    w.deliver(mailbox.signal(&w, "go")).await;
    let second = w.take(id).await.leased.fence;
    let other = Suspend { suspension: w.uuid(), ..w.pause(id, second) };
    let other = Suspend { idempotency_key: key.clone(), ..other };
    let again = w.run(other).await.expect("the key is known");
    assert_eq!(first, again);
    assert!(matches!(w.get(id).await.state, State::Active(_)), "nothing was changed");
    w.complete(id, second).await.expect("it is held");
    assert_eq!(w.run(suspend).await.expect("the key is known still"), first);

    let (id, fence) = w.running(json!({})).await;
    let theirs = Suspend { idempotency_key: key, ..w.pause(id, fence) };
    let theirs = w.run(theirs).await.expect("the key is another execution's");
    assert_ne!(theirs.suspension_id, first.suspension_id);
    assert_eq!(w.state(id).await, PublicState::Suspended);
}

/// A key is forgotten a minute after the deadline, and after a week at the latest.
pub async fn a_key_of_a_suspension_is_forgotten(w: Arc<World>) {
    let week: i64 = 7 * 86_400_000;
    for (deadline_ms, kept_ms) in [(Some(1_000), 61_000), (None, week), (Some(30 * week), week)] {
        let key = IdempotencyKey::new("k").expect("a valid key");
        let (id, fence) = w.running(json!({})).await;
        let deadline = deadline_ms.map(|ms| w.now().plus(ms.unsigned_abs()));
        let idempotency_key = Some(key);
        let first = Suspend { deadline, idempotency_key, ..w.pause(id, fence) };
        let mailbox = w.suspend(first.clone()).await.remove(0);
        w.deliver(mailbox.signal(&w, "go")).await;
        w.pass(kept_ms - 1);
        assert!(w.run(first.clone()).await.is_ok(), "it is a repeat");
        w.pass(1);
        let fence = w.take(id).await.leased.fence;
        let next = Suspend { suspension: w.uuid(), fence, ..first };
        let next = Suspend { waitpoints: vec![w.fresh("answer")], deadline: None, ..next };
        w.suspend(next).await;
        assert_eq!(w.state(id).await, PublicState::Suspended);
        w.cancel(id).await.expect("it waits");
    }
}

/// Steps recorded by a suspension are recorded with it, or not at all.
pub async fn a_suspension_records_its_steps(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let steps = vec![step(0, "charge"), step(0, "charge")];
    assert_eq!(code(w.run(Suspend { steps, ..w.pause(id, fence) }).await), Code::InvalidInput);
    assert!(recorded(&w, id).await.is_empty());
    w.suspend(Suspend { steps: vec![step(0, "charge")], ..w.pause(id, fence) }).await;
    assert_eq!(recorded(&w, id).await.len(), 1);
}

async fn recorded(w: &World, id: ExecutionId) -> Vec<ff_core::step::StepRecord> {
    match w.list(&Query::Steps(id), 10).await {
        Rows::Steps(steps) => steps,
        other => panic!("steps were asked for, not {other:?}"),
    }
}

/// Waitpoints and condition must fit each other.
pub async fn waitpoints_that_do_not_fit_are_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let base = || w.pause(id, fence);
    let two = vec![w.fresh("a"), w.fresh("b")];
    let both = ResumeCondition::AllOf(vec![single("a", None), single("b", None)]);
    let same = w.uuid();
    let twice = ["a", "b"].map(|key| Binding::Fresh { id: same, key: waitpoint_key(key) });
    let pending = Binding::Pending { id: w.uuid() };
    let long = vec![w.fresh("a"), pending];
    let wrong = [
        (Suspend { waitpoints: vec![], ..base() }, "waitpoints_empty"),
        (Suspend { waitpoints: vec![w.fresh("other")], ..base() }, "waitpoint_key_mismatch"),
        (
            Suspend { waitpoints: long, condition: both.clone(), ..base() },
            "additional_waitpoint_binding_must_be_fresh at waitpoints[1]",
        ),
        (
            Suspend { waitpoints: vec![w.fresh("a")], condition: both.clone(), ..base() },
            "referenced_waitpoint_key_missing_binding",
        ),
        (
            Suspend { waitpoints: two, condition: single("a", None), ..base() },
            "extra_binding_not_referenced_by_condition",
        ),
        (
            Suspend { waitpoints: twice.to_vec(), condition: both.clone(), ..base() },
            "is bound twice",
        ),
        (
            Suspend { waitpoints: vec![w.fresh("a"), w.fresh("a")], condition: both, ..base() },
            "is bound twice",
        ),
        (
            Suspend { condition: ResumeCondition::TimeoutOnly, ..base() },
            "timeout_only_without_deadline",
        ),
    ];
    for (suspend, word) in wrong {
        let refused = w.run(suspend).await.expect_err(word);
        assert_eq!(refused.code, Code::InvalidInput, "{word}");
        assert!(refused.message.contains(word), "{} does not say {word}", refused.message);
    }
    assert!(matches!(w.get(id).await.state, State::Active(_)), "nothing was changed");
    assert!(w.listening(None).await.is_empty());
}

/// Ten minutes of skew are forgiven; more is a mistake.
pub async fn a_deadline_long_past_is_refused(w: Arc<World>) {
    w.pass(3_600_000);
    let (id, fence) = w.running(json!({})).await;
    let long_ago = Some(Millis(w.now().0 - 600_001));
    let refused = w.run(Suspend { deadline: long_ago, ..w.pause(id, fence) }).await;
    assert!(refused.expect_err("it is past").message.contains("timeout_at_in_past"));
    let lately = Some(Millis(w.now().0 - 600_000));
    w.suspend(Suspend { deadline: lately, ..w.pause(id, fence) }).await;
}

/// Whatever else may be said of a suspension is kept.
pub async fn everything_said_of_a_suspension_reads_back(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let suspend = Suspend {
        reason: SuspensionReason::WaitingForToolResult,
        requested_by: RequestedBy::Policy,
        resume_delay_ms: 17,
        continuation: Some("page 4".to_owned()),
        deadline: soon(&w, 500),
        timeout_behavior: TimeoutBehavior::Escalate,
        ..w.pause(id, fence)
    };
    let mailbox = w.suspend(suspend.clone()).await.remove(0);
    let row = w.suspension(id).await;
    assert_eq!(
        (row.id, row.reason, row.requested_by),
        (suspend.suspension, suspend.reason, suspend.requested_by)
    );
    assert_eq!((row.resume_delay_ms, row.continuation), (17, suspend.continuation));
    assert_eq!(row.timeout_behavior, suspend.timeout_behavior);
    assert_eq!((row.since, row.condition), (w.now(), suspend.condition));
    assert_eq!((row.primary, row.attempt_index), (mailbox.waitpoint, 0));
    assert_eq!(row.end, None);
    let State::Suspended(suspended) = &w.get(id).await.state else { panic!("it is suspended") };
    assert_eq!(suspended.deadline, suspend.deadline);
}

/// An operator resumes whatever it waits for; with a delay, later.
pub async fn an_operator_resumes(w: Arc<World>) {
    for delay_ms in [0, 40] {
        let (_, own) = w.waiting_for(&["answer"], ResumeCondition::OperatorOnly).await;
        let id = own[0].id;
        let signal = own[0].signal(&w, "go");
        assert_eq!(w.deliver(signal).await.as_str(), "signal_ignored_not_in_condition");
        let reason = "looks fine".to_owned();
        let resume = Resume { id, suspension: None, reason, resume_delay_ms: delay_ms };
        let stands = w.run(resume.clone()).await.expect("it is suspended");
        let expected = if delay_ms == 0 { PublicState::Waiting } else { PublicState::Delayed };
        assert_eq!(stands, expected);
        assert_eq!(code(w.run(resume).await), Code::ExecutionNotSuspended);
        let end = w.suspension(id).await.end.expect("it is over");
        assert_eq!((end.how, end.by), (CloseReason::Resumed, vec![]));
        assert_eq!(w.waitpoint(&own[0]).await.state.word(), WaitpointWord::Closed);
        if delay_ms > 0 {
            assert_eq!(w.vector(id).await.blocking_reason, BlockingReason::WaitingForResumeDelay);
            assert!(w.claim_one().await.is_none(), "not yet");
            w.pass(i64::try_from(delay_ms).expect("small"));
        }
        let fence = w.take(id).await.leased.fence;
        w.complete(id, fence).await.expect("it is held");
        assert_eq!(w.event_names(id).await, ["suspended", "signal", "resumed", "completion"]);
    }
}

/// Nothing but a suspended execution can be resumed.
pub async fn only_what_is_suspended_can_be_resumed(w: Arc<World>) {
    let reason = || "go".to_owned();
    let resume = |id| Resume { id, suspension: None, reason: reason(), resume_delay_ms: 0 };
    assert_eq!(code(w.run(resume(w.id())).await), Code::ExecutionNotFound);
    let id = w.create(w.draft()).await;
    assert_eq!(code(w.run(resume(id)).await), Code::ExecutionNotSuspended);
    let fence = w.take(id).await.leased.fence;
    assert_eq!(code(w.run(resume(id)).await), Code::ExecutionNotSuspended);
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(code(w.run(resume(id)).await), Code::ExecutionNotSuspended);
}

/// A resume that names its suspension lets go of no later one, however often it is sent.
pub async fn a_resume_sent_again_does_not_end_the_next_wait(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    let id = mailbox.id;
    let suspension = Some(w.suspension(id).await.id);
    let go = Resume { id, suspension, reason: "go".to_owned(), resume_delay_ms: 0 };
    w.run(go.clone()).await.expect("it waits");
    let fence = w.take(id).await.leased.fence;
    w.suspend(w.pause(id, fence)).await;
    assert_eq!(code(w.run(go.clone()).await), Code::ExecutionNotSuspended);
    assert_eq!(w.state(id).await, PublicState::Suspended);
    w.run(Resume { suspension: None, ..go }).await.expect("it waits again");
}

/// Cancelling ends it where it stands, once, and closes what it waited for.
pub async fn a_suspended_execution_can_be_cancelled(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    w.cancel(mailbox.id).await.expect("it waits");
    assert_eq!(w.state(mailbox.id).await, PublicState::Cancelled);
    let end = w.suspension(mailbox.id).await.end.expect("it is over");
    assert_eq!(end.how, CloseReason::Cancelled);
    assert_eq!(w.waitpoint(&mailbox).await.state.word(), WaitpointWord::Closed);
    assert_eq!(code(w.run(mailbox.signal(&w, "go")).await), Code::TargetNotSignalable);
    assert!(w.suspended().await.is_empty());
    assert!(w.listening(None).await.is_empty());
    assert_eq!(w.event_names(mailbox.id).await, ["suspended", "completion"]);
}

/// The deadline of an execution ends it, suspended or not.
pub async fn a_deadline_ends_a_suspended_execution(w: Arc<World>) {
    let (id, fence) = w.running(json!({"timeout_policy": {"execution_deadline_ms": 100}})).await;
    w.suspend(w.pause(id, fence)).await;
    w.pass(100);
    w.tick_all().await;
    assert_eq!(w.state(id).await, PublicState::Expired);
    assert_eq!(w.suspension(id).await.end.map(|end| end.how), Some(CloseReason::Cancelled));
    assert!(w.listening(None).await.is_empty());
}

/// The timeout of an attempt counts only while it runs.
pub async fn an_attempt_does_not_time_out_while_it_waits(w: Arc<World>) {
    let (id, fence) = w.running(json!({"timeout_policy": {"attempt_timeout_ms": 100}})).await;
    w.pass(60);
    let mailbox = w.suspend(w.pause(id, fence)).await.remove(0);
    w.pass(1_000_000);
    w.tick_all().await;
    assert_eq!(w.state(id).await, PublicState::Suspended);
    w.deliver(mailbox.signal(&w, "go")).await;
    w.take(id).await;
    w.pass(39);
    w.tick_all().await;
    assert_eq!(w.state(id).await, PublicState::Active);
    w.pass(1);
    w.tick_all().await;
    assert_ne!(w.state(id).await, PublicState::Active, "its hundred milliseconds are over");
}

/// Suspended executions are listed with what they wait for, the longest waiting first, in pages.
pub async fn suspended_executions_are_listed(w: Arc<World>) {
    let mut all = Vec::new();
    for _ in 0..5 {
        all.push(w.waiting().await.1);
        w.pass(1);
    }
    w.cancel(all[1].id).await.expect("it waits");
    w.deliver(all[3].signal(&w, "go")).await;
    let left = [all[0].id, all[2].id, all[4].id];
    assert_eq!(w.suspended().await, left);
    let mut page = Page::first(2);
    let query = Query::Suspended(Box::default());
    let mut seen = Vec::new();
    loop {
        let listing = w.store.backend.list(&query, &page).await.expect("the store works");
        let Rows::Suspended(rows) = listing.rows else { panic!("suspended ones") };
        seen.extend(rows.iter().map(|(x, _)| x.id));
        let Some(next) = listing.next else { break };
        page.after = Some(next);
    }
    assert_eq!(seen, left);
    let of = |reason, partition| {
        Query::Suspended(Box::new(SuspendedSearch { reason, partition, namespace: None }))
    };
    let count = async |query| match w.list(&query, 10).await {
        Rows::Suspended(rows) => rows.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(count(of(Some(SuspensionReason::WaitingForSignal), None)).await, 3);
    assert_eq!(count(of(Some(SuspensionReason::ManualPause), None)).await, 0);
    let own = left.iter().filter(|id| id.partition() == left[0].partition()).count();
    assert_eq!(count(of(None, Some(left[0].partition()))).await, own);
    assert!(matches!(w.list(&query, 0).await, Rows::Suspended(rows) if rows.is_empty()));
}

/// Everything a suspension owned goes with its execution.
pub async fn suspensions_go_with_their_execution(w: Arc<World>) {
    let (id, fence) = w.running(json!({"retention_ms": 1})).await;
    let idempotency_key = Some(IdempotencyKey::new("k").expect("a valid key"));
    let mailbox = w.suspend(Suspend { idempotency_key, ..w.pause(id, fence) }).await.remove(0);
    w.deliver(mailbox.signal(&w, "go")).await;
    let fence = w.take(id).await.leased.fence;
    w.complete(id, fence).await.expect("it is held");
    w.pass(2);
    w.tick_all().await;
    assert!(w.find(id).await.is_none());
    let left = (w.store.dump)();
    assert!(left.suspensions.is_empty() && left.waitpoints.is_empty());
    assert!(left.signals.is_empty() && left.suspend_keys.is_empty());
}

/// Cancelled, replayed and suspended again in one batch: what it waits for now is open.
pub async fn what_is_suspended_again_at_once_is_open(w: Arc<World>) {
    let (_, mailbox) = w.waiting().await;
    let id = mailbox.id;
    let cancel = Cancel { id, reason: "no".to_owned(), fence: None, replays: None };
    let replay = Replay { id, reason: "yes".to_owned(), replays: None, downstream: true };
    let ask = w.ask(1);
    let claimed = w.get(id).await.epoch + 1;
    let fence = Fence { attempt_index: 1, lease_epoch: claimed };
    let suspend = w.pause(id, fence);
    let own = suspend.waitpoints[0].id();
    let batch = vec![cancel.into(), replay.into(), ask.claim(id).into(), suspend.into()];
    let outcomes = w.batch(batch).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(w.state(id).await, PublicState::Suspended);
    let open: Vec<_> = w.listening(Some(id)).await.iter().map(|row| row.id).collect();
    assert_eq!(open, [own]);
    assert_eq!(code(w.run(mailbox.signal(&w, "old")).await), Code::WaitpointClosed);
    let token = String::new();
    let again = Mailbox { id, waitpoint: own, token };
    let signal = DeliverSignal { authority: Authority::Operator, ..again.signal(&w, "go") };
    assert_eq!(w.deliver(signal).await, Effect::ConditionSatisfied);
}
