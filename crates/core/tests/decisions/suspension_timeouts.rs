//! When nobody came in time: five things that may be asked to happen, each exactly once and not early.

use ff_core::Code;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::deliver::Authority;
use ff_core::decide::suspend::Suspend;
use ff_core::decide::suspension_timeout::TimeOutSuspension;
use ff_core::event::{EventKind, EventName};
use ff_core::execution::{AttemptOutcome, CancelledBy, Ending, Failure, State};
use ff_core::state::{BlockingReason, PublicState};
use ff_core::suspension::{CloseReason, Effect, SuspensionReason, TimeoutBehavior, WaitpointState};
use ff_core::text::Category;
use uuid::Uuid;

use crate::commands::{ANSWER, cancel, complete, fresh, replay, resume, signal, suspend};
use crate::samples::{BACKOFF_MS, DEADLINE_MS, policy};
use crate::suspensions::{answer, time_out};
use crate::world::Life;

/// Suspended with a deadline that has not come.
fn asked(timeout_behavior: TimeoutBehavior) -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life.pass(10);
    let deadline = Some(life.world.now.plus(BACKOFF_MS));
    let own = suspend(life.id, life.fence);
    life.tell(Suspend { deadline, timeout_behavior, ..own });
    life.told();
    life
}

fn overslept(timeout_behavior: TimeoutBehavior) -> Life {
    let mut life = asked(timeout_behavior);
    life.pass(BACKOFF_MS);
    time_out(&mut life);
    life
}

/// How its suspension and its waitpoint were closed.
fn closing(life: &Life) -> (CloseReason, CloseReason) {
    let end = life.world.waits.suspensions[&life.id].end.as_ref().unwrap();
    assert_eq!(end.at, life.world.now);
    match life.world.waits.waitpoint(life.id, ANSWER).unwrap().state {
        WaitpointState::Closed { reason, .. } => (end.how, reason),
        other => panic!("{other:?}"),
    }
}

fn ending(life: &Life) -> (Ending, AttemptOutcome) {
    match &life.x().state {
        State::Terminal(terminal) => {
            (terminal.ending.clone(), terminal.last_attempt(life.id).unwrap().outcome)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_happens_a_millisecond_early_and_nothing_twice() {
    for behavior in TimeoutBehavior::ALL {
        let mut life = asked(*behavior);
        life.pass(BACKOFF_MS - 1);
        assert_eq!(life.repeat(TimeOutSuspension { id: life.id }), None, "{behavior}");
        life.pass(1);
        assert_eq!(life.tell(TimeOutSuspension { id: life.id }), Some(*behavior));
        life.pass(10 * BACKOFF_MS);
        assert_eq!(life.repeat(TimeOutSuspension { id: life.id }), None, "{behavior}");
    }
}

#[test]
fn nothing_happens_to_what_was_told_in_time() {
    for behavior in TimeoutBehavior::ALL {
        let mut life = asked(*behavior);
        life.pass(BACKOFF_MS - 1);
        answer(&mut life, 1);
        life.pass(1);
        assert_eq!(life.repeat(TimeOutSuspension { id: life.id }), None, "{behavior}");
        life.claim();
        life.pass(BACKOFF_MS);
        assert_eq!(life.repeat(TimeOutSuspension { id: life.id }), None, "{behavior}");
        life.tell(complete(life.id, life.fence));
        assert_eq!(life.repeat(TimeOutSuspension { id: life.id }), None, "{behavior}");
    }
}

#[test]
fn what_is_to_fail_fails_for_good() {
    let mut life = overslept(TimeoutBehavior::Fail);
    let failure = Failure {
        reason: "suspension_timeout".to_owned(),
        category: Category::new("suspension_timeout_fail").unwrap(),
    };
    assert_eq!(ending(&life), (Ending::Failed(failure), AttemptOutcome::Failure));
    assert_eq!(closing(&life), (CloseReason::TimedOutFail, CloseReason::TimedOutFail));
    assert_eq!(life.told(), [EventName::Completion]);
}

#[test]
fn what_is_to_be_cancelled_is_cancelled_by_the_clock() {
    let mut life = overslept(TimeoutBehavior::Cancel);
    let (by, reason) = (CancelledBy::SystemTimeout, "suspension_timeout_cancel".to_owned());
    let expected = (Ending::Cancelled { by, reason }, AttemptOutcome::Cancelled);
    assert_eq!(ending(&life), expected);
    assert_eq!(closing(&life), (CloseReason::TimedOutCancel, CloseReason::TimedOutCancel));
    assert_eq!(life.told(), [EventName::Completion]);
}

#[test]
fn what_is_to_expire_expires() {
    let mut life = overslept(TimeoutBehavior::Expire);
    let reason = "suspension_timeout_expire".to_owned();
    assert_eq!(ending(&life), (Ending::Expired { reason }, AttemptOutcome::Failure));
    assert_eq!(closing(&life), (CloseReason::TimedOutExpire, CloseReason::TimedOutExpire));
    assert_eq!(life.told(), [EventName::Completion]);
}

#[test]
fn what_is_to_go_on_reads_that_nobody_came() {
    let mut life = overslept(TimeoutBehavior::AutoResume);
    assert_eq!(life.states().0, PublicState::Waiting);
    let closed = CloseReason::TimedOutAutoResume;
    assert_eq!(closing(&life), (closed, closed));
    let came = life.world.waits.signals_of(life.id).next().unwrap().clone();
    assert_eq!((came.name.as_str(), came.category.as_str()), ("timeout", "timeout"));
    let source = (came.source_type.as_str(), came.source_identity.as_str());
    assert_eq!(source, ("system", "suspension_timeout"));
    assert_eq!((came.waitpoint, came.payload.as_ref()), (ANSWER, None));
    assert_eq!(came.effect, Effect::ConditionSatisfied);
    assert_ne!(came.id, Uuid::nil());
    let end = life.world.waits.suspensions[&life.id].end.clone().unwrap();
    assert_eq!(end.by, [came.id], "the resumed worker reads it");
    let EventKind::Signal { signal_id, .. } = life.events[0].kind else {
        panic!("{:?}", life.events)
    };
    assert_eq!((signal_id, life.told()), (came.id, vec![EventName::Signal]));
    assert_eq!(life.claim().kind, ClaimKind::Resumed);
}

#[test]
fn what_is_escalated_goes_on_waiting_for_an_operator_too() {
    let mut life = overslept(TimeoutBehavior::Escalate);
    assert_eq!(life.states().0, PublicState::Suspended);
    let vector = life.vector();
    assert_eq!(vector.blocking_reason, BlockingReason::PausedByOperator);
    let missed = format!("waiting_for_operator_review, nobody came by {}", life.x().updated_at);
    assert_eq!(vector.blocking_detail, Some(missed));
    let suspension = &life.world.waits.suspensions[&life.id];
    assert!(suspension.is_open(life.x()) && suspension.end.is_none());
    assert_eq!(suspension.reason, SuspensionReason::WaitingForOperatorReview);
    assert_eq!(suspension.timeout_behavior, TimeoutBehavior::Fail, "as if nobody had said it");
    assert_eq!(life.told(), [EventName::Escalated]);
    // Signals still count, and so does an operator.
    let mut let_on = life.clone();
    let_on.tell(resume(let_on.id));
    answer(&mut life, 1);
    for life in [life, let_on] {
        assert_eq!(life.states().0, PublicState::Waiting);
        let closed = CloseReason::Resumed;
        assert_eq!(closing(&life), (closed, closed));
    }
}

/// A suspension that is over, in every way in which it can be.
fn closed() -> Vec<(String, Life)> {
    let timed_out = TimeoutBehavior::ALL.iter().filter(|how| **how != TimeoutBehavior::Escalate);
    let mut all: Vec<_> = timed_out.map(|how| (how.to_string(), overslept(*how))).collect();
    let base = asked(TimeoutBehavior::AutoResume);
    let with = |name: &str, step: fn(&mut Life)| {
        let mut life = base.clone();
        step(&mut life);
        (name.to_owned(), life)
    };
    all.extend(vec![
        with("told", |life| answer(life, 1)),
        with("let on", |life| {
            life.tell(resume(life.id));
        }),
        with("cancelled", |life| life.tell(cancel(life.id))),
        with("expired", |life| {
            life.pass(DEADLINE_MS);
            life.tell(ExpireExecution { id: life.id });
        }),
        with("going on", |life| {
            answer(life, 1);
            life.claim();
        }),
        with("replayed", |life| {
            life.tell(cancel(life.id));
            life.tell(replay(life.id));
        }),
        with("suspended anew", |life| {
            answer(life, 1);
            life.claim();
            let waitpoints = vec![fresh(Uuid::from_u128(0xAF), "answer")];
            life.tell(Suspend { waitpoints, ..suspend(life.id, life.fence) });
        }),
    ]);
    all
}

#[test]
fn a_closed_suspension_is_never_resumed_again() {
    for (how, mut life) in closed() {
        life.pass(10 * BACKOFF_MS);
        let before = life.x().clone();
        for n in 7..9 {
            let mut late = signal(&life.world, life.id, ANSWER, n);
            if n == 8 {
                late.authority = Authority::Operator;
            }
            let refused = life.refused(late);
            let ended = matches!(before.state, State::Terminal(_));
            let expected = if ended { Code::TargetNotSignalable } else { Code::WaitpointClosed };
            assert_eq!(refused.code, expected, "{how}");
        }
        if how != "suspended anew" {
            let refused = life.refused(resume(life.id));
            assert_eq!(refused.code, Code::ExecutionNotSuspended, "{how}");
        }
        assert_eq!(life.repeat(TimeOutSuspension { id: life.id }), None, "{how}");
        assert_eq!(*life.x(), before, "{how}");
    }
}
