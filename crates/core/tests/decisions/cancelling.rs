//! Cancelling: from any state that has not ended, once, and never over another ending.

use ff_core::Code;
use ff_core::decide::cancel::Cancel;
use ff_core::event::EventName;
use ff_core::execution::{CancelledBy, Ending, State};
use ff_core::policy::FailureClass;
use ff_core::state::{Phase, PublicState, TerminalOutcome};

use crate::commands::{cancel, complete, delay, fail, give_up};
use crate::samples::{BACKOFF_MS, policy, samples};
use crate::world::{LEASE_TTL_MS, Life};

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

fn ending(life: &Life) -> Ending {
    match &life.x().state {
        State::Terminal(terminal) => terminal.ending.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_operator_can_cancel_whatever_has_not_ended() {
    for sample in samples() {
        let mut life = sample.life;
        let Some(x) = life.find().cloned() else {
            continue;
        };
        life.events.clear();
        if x.state.phase() != Phase::Terminal {
            life.tell(cancel(life.id));
            assert_eq!(life.states().0, PublicState::Cancelled, "{}", sample.name);
            let expected: &[EventName] = match x.state.phase() {
                Phase::Active => &[EventName::LeaseRevoked, EventName::Completion],
                Phase::Runnable | Phase::Suspended | Phase::Terminal => &[EventName::Completion],
            };
            assert_eq!(life.told(), expected, "{}", sample.name);
            life.repeat(cancel(life.id));
        }
    }
}

#[test]
fn cancelling_never_rewrites_another_ending() {
    for sample in samples() {
        let mut life = sample.life;
        let Some(State::Terminal(terminal)) = life.find().map(|x| x.state.clone()) else {
            continue;
        };
        let outcome = terminal.ending.outcome();
        if outcome == TerminalOutcome::Cancelled {
            life.repeat(cancel(life.id));
        } else {
            let refused = life.refused(cancel(life.id));
            assert_eq!(refused.code, Code::ExecutionNotActive, "{}", sample.name);
            assert_eq!(refused.standing.unwrap().outcome, Some(outcome));
        }
        assert_eq!(ending(&life), terminal.ending);
    }
}

#[test]
fn the_first_to_cancel_gives_the_reason() {
    let mut life = active();
    life.tell(give_up(life.id, life.fence));
    life.repeat(give_up(life.id, life.fence));
    life.repeat(Cancel { reason: "me too".to_owned(), ..cancel(life.id) });
    let by = CancelledBy::Worker;
    let reason = "nothing to do".to_owned();
    assert_eq!(ending(&life), Ending::Cancelled { by, reason });
}

#[test]
fn a_holder_that_comes_after_the_operator_is_told_that_it_has_ended() {
    let mut life = active();
    life.tell(cancel(life.id));
    let by = CancelledBy::Operator;
    let reason = "no longer wanted".to_owned();
    assert_eq!(ending(&life), Ending::Cancelled { by, reason });
    let refused = life.refused(give_up(life.id, life.fence));
    assert_eq!(refused.code, Code::ExecutionNotActive);
}

#[test]
fn only_the_holder_can_cancel_as_the_holder() {
    let mut life = active();
    life.pass(LEASE_TTL_MS);
    let late = life.refused(give_up(life.id, life.fence));
    assert_eq!(late.code, Code::LeaseExpired);
    let mut waiting = Life::under(&policy());
    let early = waiting.refused(give_up(waiting.id, waiting.fence));
    assert_eq!(early.code, Code::StaleLease);
}

#[test]
fn cancelling_during_a_backoff_leaves_the_failed_attempt_in_history_once() {
    let mut life = active();
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    life.tell(cancel(life.id));
    assert_eq!(life.history.len(), 1);
    let late = life.refused(fail(life.id, life.fence, FailureClass::Transient));
    assert_eq!(late.code, Code::ExecutionNotActive);
}

#[test]
fn cancelling_what_was_put_off_ends_the_interrupted_attempt() {
    let mut life = active();
    life.tell(delay(life.id, life.fence, life.world.now.plus(BACKOFF_MS)));
    life.tell(cancel(life.id));
    let State::Terminal(terminal) = &life.x().state else { panic!("{:?}", life.x()) };
    assert_eq!(terminal.attempt.as_ref().unwrap().index, 0);
    let late = life.refused(complete(life.id, life.fence));
    assert_eq!(late.code, Code::ExecutionNotActive);
}
