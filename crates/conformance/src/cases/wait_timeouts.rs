//! Deadlines of suspensions: nobody came in time, and exactly what was said happens, once.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::condition::ResumeCondition;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::suspend::Suspend;
use ff_core::decide::suspension_timeout::TimeOutSuspension;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::{AttemptOutcome, CancelledBy, Ending, State};
use ff_core::state::{BlockingReason, PublicState};
use ff_core::suspension::{CloseReason, Effect, SuspensionReason, TimeoutBehavior, WaitpointState};
use serde_json::json;

use crate::world::waits::{Mailbox, soon};
use crate::world::{World, code};

async fn waiting_until(w: &World, ms: u64, timeout_behavior: TimeoutBehavior) -> Mailbox {
    let (id, fence) = w.running(json!({})).await;
    let deadline = soon(w, ms);
    let suspend = Suspend { deadline, timeout_behavior, ..w.pause(id, fence) };
    w.suspend(suspend).await.remove(0)
}

/// Lets a deadline pass; it is not due one millisecond before.
async fn let_pass(w: &World, behavior: TimeoutBehavior) -> Mailbox {
    let mailbox = waiting_until(w, 100, behavior).await;
    w.pass(99);
    assert!(w.tick(Duty::SuspensionTimeout).await.is_empty(), "not yet");
    w.pass(1);
    let done = w.tick(Duty::SuspensionTimeout).await;
    assert_eq!(done, [Ok(Reply::TimeOutSuspension(Some(behavior)))]);
    assert!(w.tick(Duty::SuspensionTimeout).await.is_empty(), "once");
    mailbox
}

async fn ended(w: &World, mailbox: &Mailbox, of: AttemptOutcome) -> (Ending, CloseReason) {
    let x = w.get(mailbox.id).await;
    let State::Terminal(terminal) = &x.state else { panic!("it has ended") };
    let attempt = terminal.last_attempt(x.id).map(|attempt| (attempt.index, attempt.outcome));
    assert_eq!(attempt, Some((0, of)));
    assert_eq!(w.event_names(x.id).await, ["suspended", "completion"]);
    assert_eq!(code(w.run(mailbox.signal(w, "late")).await), Code::TargetNotSignalable);
    assert!(w.listening(None).await.is_empty() && w.suspended().await.is_empty());
    let end = w.suspension(x.id).await.end.expect("it is over");
    assert!(end.by.is_empty());
    (terminal.ending.clone(), end.how)
}

/// `fail`: it failed, whatever its retry policy says.
pub async fn a_timeout_may_fail_it(w: Arc<World>) {
    let mailbox = let_pass(&w, TimeoutBehavior::Fail).await;
    assert_eq!(w.state(mailbox.id).await, PublicState::Failed);
    let (ending, how) = ended(&w, &mailbox, AttemptOutcome::Failure).await;
    let Ending::Failed(failure) = ending else { panic!("it failed: {ending:?}") };
    assert_eq!(failure.reason, "suspension_timeout");
    assert_eq!(failure.category.as_str(), "suspension_timeout_fail");
    assert_eq!(how, CloseReason::TimedOutFail);
}

/// `cancel`: it is cancelled, by the system.
pub async fn a_timeout_may_cancel_it(w: Arc<World>) {
    let mailbox = let_pass(&w, TimeoutBehavior::Cancel).await;
    assert_eq!(w.state(mailbox.id).await, PublicState::Cancelled);
    let (ending, how) = ended(&w, &mailbox, AttemptOutcome::Cancelled).await;
    let (by, reason) = (CancelledBy::SystemTimeout, "suspension_timeout_cancel".to_owned());
    assert_eq!((ending, how), (Ending::Cancelled { by, reason }, CloseReason::TimedOutCancel));
}

/// `expire`: it expired.
pub async fn a_timeout_may_expire_it(w: Arc<World>) {
    let mailbox = let_pass(&w, TimeoutBehavior::Expire).await;
    assert_eq!(w.state(mailbox.id).await, PublicState::Expired);
    let (ending, how) = ended(&w, &mailbox, AttemptOutcome::Failure).await;
    let reason = "suspension_timeout_expire".to_owned();
    assert_eq!((ending, how), (Ending::Expired { reason }, CloseReason::TimedOutExpire));
}

/// `auto_resume_with_timeout_signal`: it goes on, and reads a signal that says why.
pub async fn a_timeout_may_resume_it(w: Arc<World>) {
    let mailbox = let_pass(&w, TimeoutBehavior::AutoResume).await;
    let id = mailbox.id;
    assert_eq!(w.state(id).await, PublicState::Waiting);
    let signal = w.signals(id).await.remove(0);
    assert_eq!((signal.name.as_str(), signal.category.as_str()), ("timeout", "timeout"));
    assert_eq!(signal.source_type, "system");
    assert_eq!(signal.source_identity, "suspension_timeout");
    assert_eq!((signal.payload, signal.effect), (None, Effect::ConditionSatisfied));
    let end = w.suspension(id).await.end.expect("it is over");
    assert_eq!((end.how, end.by), (CloseReason::TimedOutAutoResume, vec![signal.id]));
    assert_eq!(code(w.run(mailbox.signal(&w, "late")).await), Code::WaitpointClosed);
    let claimed = w.take(id).await.leased;
    assert_eq!((claimed.kind, claimed.fence.attempt_index), (ClaimKind::Resumed, 0));
    w.complete(id, claimed.fence).await.expect("it is held");
}

/// What was handed to an operator and answered in one batch tells both.
pub async fn escalated_and_answered_in_one_batch(w: Arc<World>) {
    // The third time, a store may know all there is to know.
    for _ in 0..3 {
        let mailbox = waiting_until(&w, 100, TimeoutBehavior::Escalate).await;
        w.pass(100);
        let late = TimeOutSuspension { id: mailbox.id };
        let outcomes = w.batch(vec![late.into(), mailbox.signal(&w, "go").into()]).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let suspension = w.suspension(mailbox.id).await;
        assert_eq!(suspension.reason, SuspensionReason::WaitingForOperatorReview);
        assert_eq!(suspension.timeout_behavior, TimeoutBehavior::Fail);
        assert_eq!(suspension.end.map(|end| end.how), Some(CloseReason::Resumed));
        w.take(mailbox.id).await;
    }
}

/// `escalate`: it waits on, for an operator too, and signals still arrive.
pub async fn a_timeout_may_escalate(w: Arc<World>) {
    let mailbox = let_pass(&w, TimeoutBehavior::Escalate).await;
    let (id, missed) = (mailbox.id, w.now());
    assert_eq!(w.state(id).await, PublicState::Suspended);
    let vector = w.vector(id).await;
    assert_eq!(vector.blocking_reason, BlockingReason::PausedByOperator);
    let detail = format!("waiting_for_operator_review, nobody came by {missed}");
    assert_eq!(vector.blocking_detail, Some(detail));
    let row = w.suspension(id).await;
    assert_eq!((row.reason, row.end), (SuspensionReason::WaitingForOperatorReview, None));
    assert_eq!(row.timeout_behavior, TimeoutBehavior::Fail, "there is nothing more to happen");
    let state = w.waitpoint(&mailbox).await.state;
    assert!(matches!(state, WaitpointState::Active { expires_at: None, .. }), "{state:?}");
    w.pass(1_000_000);
    assert!(w.tick(Duty::SuspensionTimeout).await.is_empty(), "it has no deadline any more");
    assert_eq!(w.deliver(mailbox.signal(&w, "go")).await, Effect::ConditionSatisfied);
    let names = w.event_names(id).await;
    assert_eq!(names, ["suspended", "escalated", "signal"]);
    assert_eq!(w.state(id).await, PublicState::Waiting);
}

/// Resumed before its deadline and finished after it: nothing is left to fire.
pub async fn a_resume_before_the_deadline_leaves_nothing(w: Arc<World>) {
    for behavior in TimeoutBehavior::ALL {
        let mailbox = waiting_until(&w, 100, *behavior).await;
        let id = mailbox.id;
        w.pass(50);
        w.deliver(mailbox.signal(&w, "go")).await;
        assert!(w.due(Duty::SuspensionTimeout, 10).await.next.is_none());
        let fence = w.take(id).await.leased.fence;
        w.pass(60);
        w.tick_all().await;
        let late = w.run(TimeOutSuspension { id }).await;
        assert_eq!(late, Ok(None), "{behavior}");
        w.complete(id, fence).await.expect("it is held");
        w.pass(60);
        w.tick_all().await;
        assert_eq!(w.run(TimeOutSuspension { id }).await, Ok(None));
        assert_eq!(w.state(id).await, PublicState::Completed, "{behavior}");
        let ends = w.events(id).await;
        let ends = ends.iter().filter(|event| matches!(event.kind, EventKind::Completion { .. }));
        assert_eq!(ends.count(), 1);
    }
}

/// The deadline of an earlier suspension is nothing to a later one.
pub async fn a_deadline_belongs_to_its_suspension(w: Arc<World>) {
    let mailbox = waiting_until(&w, 100, TimeoutBehavior::Fail).await;
    let id = mailbox.id;
    w.deliver(mailbox.signal(&w, "go")).await;
    let fence = w.take(id).await.leased.fence;
    let (deadline, timeout_behavior) = (soon(&w, 500), TimeoutBehavior::Expire);
    w.suspend(Suspend { deadline, timeout_behavior, ..w.pause(id, fence) }).await;
    w.pass(200);
    w.tick_all().await;
    assert_eq!(w.run(TimeOutSuspension { id }).await, Ok(None));
    assert_eq!(w.state(id).await, PublicState::Suspended);
    w.pass(300);
    w.tick_all().await;
    assert_eq!(w.state(id).await, PublicState::Expired);
}

/// A wait for nothing but the time.
pub async fn a_wait_for_a_time_alone_ends_then(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let suspend = Suspend {
        condition: ResumeCondition::TimeoutOnly,
        deadline: soon(&w, 100),
        timeout_behavior: TimeoutBehavior::AutoResume,
        ..w.pause(id, fence)
    };
    let mailbox = w.suspend(suspend).await.remove(0);
    let early = mailbox.signal(&w, "go");
    assert_eq!(w.deliver(early).await, Effect::IgnoredNotInCondition);
    w.pass(100);
    w.tick_all().await;
    assert_eq!(w.state(id).await, PublicState::Waiting);
    let signals = w.signals(id).await;
    assert_eq!(signals[1].name.as_str(), "timeout");
    assert_eq!(w.suspension(id).await.end.expect("it is over").by, [signals[1].id]);
}

/// What nobody came for goes on at once, whatever delay a signal would have had.
pub async fn a_timeout_resumes_without_delay(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let suspend = Suspend {
        deadline: soon(&w, 100),
        timeout_behavior: TimeoutBehavior::AutoResume,
        resume_delay_ms: 30,
        ..w.pause(id, fence)
    };
    w.suspend(suspend).await;
    w.pass(100);
    w.tick_all().await;
    assert_eq!(w.state(id).await, PublicState::Waiting);
    w.take(id).await;
}
