//! Suspending: the lease goes, the attempt stays, and what came before anybody waited counts.

use ff_core::condition::ResumeCondition;
use ff_core::decide::attempt_timeout::TimeOutAttempt;
use ff_core::decide::claim::{Claim, ClaimKind};
use ff_core::decide::create::Create;
use ff_core::decide::create_waitpoint::CreateWaitpoint;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::decide::waitpoint_expiry::ExpireWaitpoint;
use ff_core::event::EventName;
use ff_core::execution::{Active, Attempt, Fence, State};
use ff_core::fold::LeaseRow;
use ff_core::limits::{
    BINDINGS_MAX, CONTINUATION_BYTES_MAX, DEADLINE_SKEW_MS_MAX, DURATION_MS_MAX,
    SUSPEND_KEY_GRACE_MS, SUSPEND_KEY_MS_MAX, WAITPOINTS_MAX,
};
use ff_core::state::{
    AttemptState, BlockingReason, EligibilityState, OwnershipState, Phase, PublicState, StateVector,
};
use ff_core::suspension::{
    CloseReason, Effect, SuspensionReason, TimeoutBehavior, WaitpointState, WaitpointWord,
};
use ff_core::text::IdempotencyKey;
use ff_core::{Code, Command};
use serde_json::json;
use uuid::Uuid;

use crate::commands::{
    ANSWER, EARLY, UNUSED_MS, cancel, close_waitpoint, complete, fresh, journal, make_waitpoint,
    replay, resume, revoke, signal, single, suspend, suspend_anew, suspend_early, waitpoint_key,
};
use crate::samples::{ATTEMPT_MS, BACKOFF_MS, policy};
use crate::suspensions::{answer, pause, time_out};
use crate::world::{Life, claim, create, id};

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

fn suspended() -> Life {
    let mut life = active();
    life.pass(10);
    pause(&mut life);
    life
}

fn running(life: &Life) -> &Active {
    match &life.x().state {
        State::Active(active) => active,
        other => panic!("{other:?}"),
    }
}

fn paused(life: &Life) -> &Attempt {
    match &life.x().state {
        State::Suspended(suspended) => &suspended.attempt,
        other => panic!("{other:?}"),
    }
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).unwrap()
}

#[test]
fn suspending_gives_the_lease_back_and_nothing_else() {
    let mut life = active();
    life.pass(10);
    let (before, epoch) = (running(&life).attempt.clone(), life.x().epoch);
    let until = life.world.now.plus(50);
    life.tell(Suspend { deadline: Some(until), ..suspend(life.id, life.fence) });
    let expected = StateVector {
        lifecycle_phase: Phase::Suspended,
        ownership_state: OwnershipState::Unowned,
        eligibility_state: EligibilityState::NotApplicable,
        blocking_reason: BlockingReason::WaitingForSignal,
        terminal_outcome: None,
        attempt_state: AttemptState::AttemptInterrupted,
        public_state: PublicState::Suspended,
        blocking_detail: Some(format!("waiting_for_signal, until {until}")),
    };
    assert_eq!(life.vector(), expected);
    assert_eq!(*paused(&life), Attempt { ran_ms: 10, ..before });
    assert_eq!(life.x().epoch, epoch + 1);
    assert_eq!(LeaseRow::of(life.x()), None);
    assert_eq!(life.told(), [EventName::Suspended]);
    assert!(life.history.is_empty(), "the attempt is not over");
}

#[test]
fn each_reason_is_shown_as_what_it_is_blocked_by() {
    use BlockingReason as B;
    use SuspensionReason as R;
    for (reason, blocked_by) in [
        (R::WaitingForSignal, B::WaitingForSignal),
        (R::WaitingForApproval, B::WaitingForApproval),
        (R::WaitingForCallback, B::WaitingForCallback),
        (R::WaitingForToolResult, B::WaitingForToolResult),
        (R::WaitingForOperatorReview, B::PausedByOperator),
        (R::ManualPause, B::PausedByOperator),
        (R::PausedByPolicy, B::PausedByPolicy),
        (R::PausedByBudget, B::WaitingForBudget),
        (R::StepBoundary, B::WaitingForSignal),
    ] {
        let mut life = active();
        life.tell(Suspend { reason, ..suspend(life.id, life.fence) });
        assert_eq!(life.vector().blocking_reason, blocked_by, "{reason}");
    }
}

/// Something that goes on after a suspension, however it came to that.
fn resumed() -> [(&'static str, Life); 3] {
    let mut told = suspended();
    told.pass(90);
    let (mut let_on, mut woken) = (told.clone(), active());
    answer(&mut told, 1);
    let_on.tell(resume(let_on.id));
    woken.pass(10);
    let deadline = Some(woken.world.now.plus(90));
    let timeout_behavior = TimeoutBehavior::AutoResume;
    let own = suspend(woken.id, woken.fence);
    woken.tell(Suspend { deadline, timeout_behavior, ..own });
    woken.pass(90);
    time_out(&mut woken);
    [("told", told), ("let on", let_on), ("woken", woken)]
}

#[test]
fn what_goes_on_goes_on_with_its_attempt_under_a_higher_epoch() {
    for (how, mut life) in resumed() {
        let (old, started_at) = (life.fence, life.x().started_at);
        let states = (PublicState::Waiting, AttemptState::AttemptInterrupted);
        assert_eq!(life.states(), states, "{how}");
        assert_eq!(life.vector().eligibility_state, EligibilityState::EligibleNow, "{how}");
        let counts = life.x().counts;
        let leased = life.claim();
        assert_eq!(leased.kind, ClaimKind::Resumed, "{how}");
        assert_eq!(leased.fence.attempt_index, old.attempt_index, "{how}");
        assert!(leased.fence.lease_epoch > old.lease_epoch, "{how}");
        let attempt = &running(&life).attempt;
        assert_eq!(Some(attempt.started_at), started_at, "{how}");
        assert_eq!(attempt.ran_ms, 10, "{how}: waiting does not count");
        assert_eq!((life.x().counts, life.x().started_at), (counts, started_at), "{how}");
        assert!(life.history.is_empty(), "{how}: nothing is over");
        let refused = life.refused(complete(life.id, old));
        assert_eq!(refused.code, Code::StaleLease, "{how}");
        life.tell(complete(life.id, life.fence));
    }
}

#[test]
fn what_goes_on_has_the_rest_of_its_time() {
    for (how, mut life) in resumed() {
        let claim = Claim { lease_ttl_ms: 2 * ATTEMPT_MS, ..life.next_claim() };
        life.take(claim);
        life.pass(ATTEMPT_MS - 11);
        assert_eq!(life.repeat(TimeOutAttempt { id: life.id }), None, "{how}");
        life.pass(1);
        assert!(life.tell(TimeOutAttempt { id: life.id }).is_some(), "{how}");
    }
}

#[test]
fn whoever_suspended_may_not_act_any_more() {
    let mut life = suspended();
    let (id, fence) = (life.id, life.fence);
    assert_eq!(life.refused(complete(id, fence)).code, Code::ExecutionNotActive);
    assert_eq!(life.refused(make_waitpoint(id, fence)).code, Code::ExecutionNotActive);
    assert_eq!(life.refused(suspend_anew(id, fence)).code, Code::AlreadySuspended);
    let older = Fence { lease_epoch: fence.lease_epoch - 2, ..fence };
    assert_eq!(life.refused(complete(id, older)).code, Code::StaleLease);
}

#[test]
fn a_repeated_suspension_has_the_same_answer_whatever_happened_since() {
    let mut life = active();
    let own = suspend(life.id, life.fence);
    let first = life.tell(own.clone());
    assert!(!first.already_satisfied && first.waitpoints[0].token.is_some());
    assert_eq!(life.repeat(own.clone()), first);
    answer(&mut life, 1);
    assert_eq!(life.repeat(own.clone()), first);
    // Until somebody has it again, whom it would confuse.
    life.claim();
    assert_eq!(life.refused(own).code, Code::StaleLease);
}

#[test]
fn a_suspension_under_a_key_has_the_same_answer_until_the_key_is_forgotten() {
    let mut life = active();
    let idempotency_key = Some(key("approve"));
    let own = Suspend { idempotency_key, ..suspend(life.id, life.fence) };
    let first = life.tell(own.clone());
    answer(&mut life, 1);
    life.claim();
    // Whatever else it says: the key stands for the first.
    let other = Suspend {
        idempotency_key: own.idempotency_key.clone(),
        ..suspend_anew(life.id, life.fence)
    };
    assert_eq!(life.repeat(other.clone()), first);
    life.pass(SUSPEND_KEY_MS_MAX - 1);
    assert_eq!(life.repeat(other.clone()), first);
    life.pass(1);
    assert_eq!(life.refused(other).code, Code::LeaseExpired);
}

#[test]
fn a_key_is_remembered_for_a_minute_after_the_deadline() {
    let mut life = active();
    let (deadline, idempotency_key) = (Some(life.world.now.plus(50)), Some(key("approve")));
    let own = Suspend { deadline, idempotency_key, ..suspend(life.id, life.fence) };
    let first = life.tell(own.clone());
    answer(&mut life, 1);
    life.claim();
    life.pass(50 + SUSPEND_KEY_GRACE_MS - 1);
    assert_eq!(life.repeat(own.clone()), first);
    life.pass(1);
    assert_eq!(life.refused(own).code, Code::StaleLease);
}

#[test]
fn the_same_key_on_another_execution_stands_for_something_else() {
    let mut life = active();
    let idempotency_key = Some(key("approve"));
    let own = Suspend { idempotency_key, ..suspend(life.id, life.fence) };
    let first = life.tell(own.clone());
    let other = id(2);
    life.tell(Create { id: other, idempotency_key: None, ..create(2) });
    let fence = life.tell(claim(other, 99)).fence;
    let second = life.tell(Suspend { id: other, fence, ..own });
    assert_ne!(first.waitpoints[0].token, second.waitpoints[0].token);
}

/// Its worker made a waitpoint, and this many signals came there.
fn answered_early(signals: u128) -> Life {
    let mut life = active();
    life.tell(make_waitpoint(life.id, life.fence));
    for n in 1..=signals {
        let early = signal(&life.world, life.id, EARLY, n);
        let effect = Effect::Buffered;
        let signal_id = early.signal;
        assert_eq!(life.tell(early), Delivered::Accepted { signal_id, effect });
    }
    life
}

#[test]
fn whoever_waits_for_what_came_before_goes_on_at_once() {
    let mut life = answered_early(2);
    let before = life.x().state.clone();
    let steps = journal(life.id, life.fence, 0).steps;
    let own = Suspend { steps, ..suspend_early(life.id, life.fence) };
    let reply = life.tell(own.clone());
    assert!(reply.already_satisfied);
    assert_eq!(life.x().state, before, "the lease stays");
    assert_eq!(life.written.steps.len(), 2, "and what it did is recorded");
    let suspension = &life.world.waits.suspensions[&life.id];
    let end = suspension.end.as_ref().unwrap();
    let by = vec![Uuid::from_u128(1)];
    assert_eq!((end.how, &end.by), (CloseReason::Resumed, &by), "the first was enough");
    let late = life.refused(signal(&life.world, life.id, EARLY, 3));
    assert_eq!(late.code, Code::WaitpointClosed);
    assert_eq!(life.repeat(own.clone()), reply);
    let mut lost = life.clone();
    lost.tell(revoke(lost.id));
    assert_eq!(lost.refused(own.clone()).code, Code::LeaseRevoked);
    lost.claim();
    assert_eq!(lost.refused(own).code, Code::StaleLease, "another holds it");
    life.tell(complete(life.id, life.fence));
}

#[test]
fn what_came_before_counts_with_what_comes_later() {
    let mut life = answered_early(1);
    let token = signal(&life.world, life.id, EARLY, 2).authority;
    let condition = serde_json::from_value(
        json!({"count": {"n": 2, "distinct": "signals", "waitpoints": ["early"]}}),
    );
    let condition = condition.unwrap();
    let reply = life.tell(Suspend { condition, ..suspend_early(life.id, life.fence) });
    assert!(!reply.already_satisfied);
    let second = signal(&life.world, life.id, EARLY, 2);
    assert_eq!(second.authority, token, "what was handed out stays good");
    let effect = Effect::ConditionSatisfied;
    let signal_id = second.signal;
    assert_eq!(life.tell(second), Delivered::Accepted { signal_id, effect });
    let end = life.world.waits.suspensions[&life.id].end.clone().unwrap();
    assert_eq!(end.by, [Uuid::from_u128(1), Uuid::from_u128(2)]);
}

#[test]
fn only_a_waitpoint_that_is_pending_can_be_waited_at() {
    let mut life = active();
    let (id, fence) = (life.id, life.fence);
    assert_eq!(life.refused(suspend_early(id, fence)).code, Code::WaitpointNotFound);
    life.tell(make_waitpoint(id, fence));
    let mut both = suspend_early(id, fence);
    let key = life.world.waits.waitpoint(id, EARLY).unwrap().key.clone();
    both.waitpoints.push(Binding::Fresh { id: ANSWER, key });
    let refused = life.refused(both);
    assert!(refused.message.contains("is bound twice"), "{refused}");
    let mut expired = life.clone();
    expired.pass(UNUSED_MS - 1);
    expired.clone().tell(suspend_early(id, fence));
    expired.pass(1);
    assert_eq!(expired.refused(suspend_early(id, fence)).code, Code::PendingWaitpointExpired);
    life.tell(close_waitpoint(id, fence));
    assert_eq!(life.refused(suspend_early(id, fence)).code, Code::WaitpointNotPending);
    let twice = Suspend { waitpoints: vec![fresh(EARLY, "answer")], ..suspend(id, fence) };
    assert_eq!(life.refused(twice).code, Code::WaitpointAlreadyExists);
}

#[test]
fn a_waitpoint_made_by_an_attempt_that_was_lost_serves_the_next() {
    let mut life = answered_early(1);
    life.tell(revoke(life.id));
    life.claim();
    assert_eq!(life.fence.attempt_index, 1);
    assert!(life.tell(suspend_early(life.id, life.fence)).already_satisfied);
}

#[test]
fn an_execution_may_have_so_many_open_waitpoints_and_wait_at_each_of_them() {
    let mut life = active();
    let (id, fence) = (life.id, life.fence);
    let made = |n: usize| CreateWaitpoint {
        waitpoint: Uuid::from_u128(0x1000 + u128::try_from(n).unwrap()),
        ..make_waitpoint(id, fence)
    };
    for n in 1..WAITPOINTS_MAX {
        life.tell(made(n));
    }
    life.clone().tell(suspend(id, fence));
    life.tell(make_waitpoint(id, fence));
    assert_eq!(life.refused(made(WAITPOINTS_MAX)).code, Code::TooManyWaitpoints);
    assert_eq!(life.refused(suspend(id, fence)).code, Code::TooManyWaitpoints);
    life.repeat(make_waitpoint(id, fence));
    assert!(!life.tell(suspend_early(id, fence)).already_satisfied);
}

#[test]
fn names_of_suspensions_may_come_again() {
    let mut life = active();
    for n in 0..3 {
        let deadline = Some(life.world.now);
        let timeout_behavior = TimeoutBehavior::AutoResume;
        let waitpoints = vec![fresh(Uuid::from_u128(0xA0 + n), "answer")];
        let own = suspend(life.id, life.fence);
        life.tell(Suspend { deadline, timeout_behavior, waitpoints, ..own });
        time_out(&mut life);
        life.claim();
    }
    assert_eq!(life.world.waits.signals_of(life.id).count(), 3);
}

#[test]
fn what_came_to_an_earlier_suspension_of_the_same_name_does_not_count() {
    let mut life = active();
    let (id, first) = (life.id, life.fence);
    let second = Fence { lease_epoch: first.lease_epoch + 2, ..first };
    let count = json!({"count": {"n": 2, "distinct": "signals", "waitpoints": ["answer"]}});
    let condition: ResumeCondition = serde_json::from_value(count).unwrap();
    let at = [ANSWER, Uuid::from_u128(0xA1)];
    let wait = |fence, waitpoint| Suspend {
        condition: condition.clone(),
        waitpoints: vec![fresh(waitpoint, "answer")],
        ..suspend(id, fence)
    };
    let send = |waitpoint, n| DeliverSignal {
        authority: Authority::Operator,
        ..signal(&life.world, id, waitpoint, n)
    };
    let batch: [Command; 6] = [
        wait(first, at[0]).into(),
        send(at[0], 1).into(),
        resume(id).into(),
        claim(id, 9).into(),
        wait(second, at[1]).into(),
        send(at[1], 2).into(),
    ];
    let (outcomes, _) = life.world.fold(&batch);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:#?}");
    assert_eq!(life.states().0, PublicState::Suspended);
}

#[test]
fn an_execution_that_ends_and_waits_again_in_one_batch_waits() {
    let mut life = suspended();
    let (id, old) = (life.id, life.fence);
    let fence = Fence { attempt_index: 1, lease_epoch: old.lease_epoch + 2 };
    let batch: [Command; 4] =
        [cancel(id).into(), replay(id).into(), claim(id, 9).into(), suspend_anew(id, fence).into()];
    let (outcomes, _) = life.world.fold(&batch);
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:#?}");
    let waits = &life.world.waits;
    assert!(waits.suspensions[&id].is_open(life.x()), "{:#?}", waits.suspensions);
    let states: Vec<_> = waits.waitpoints_of(id).map(|row| row.state.word()).collect();
    assert_eq!(states, [WaitpointWord::Closed, WaitpointWord::Active]);
}

#[test]
fn a_deadline_may_lie_a_little_in_the_past() {
    let mut life = active();
    life.world.now = life.world.now.plus(2 * DEADLINE_SKEW_MS_MAX);
    let claim = Claim { lease_ttl_ms: DEADLINE_SKEW_MS_MAX, ..life.next_claim() };
    life.tell(revoke(life.id));
    life.take(claim);
    let at = |ms| Some(life.world.now.minus(DEADLINE_SKEW_MS_MAX + ms));
    let own = suspend(life.id, life.fence);
    let (over, just) = (at(1), at(0));
    let refused = life.refused(Suspend { deadline: over, ..own.clone() });
    assert_eq!((refused.code, refused.field), (Code::InvalidInput, Some("timeout_at")));
    assert!(refused.message.contains("timeout_at_in_past"), "{refused}");
    let far = Some(life.world.now.plus(DURATION_MS_MAX + 1));
    assert_eq!(life.refused(Suspend { deadline: far, ..own.clone() }).code, Code::InvalidInput);
    life.tell(Suspend { deadline: just, ..own });
}

#[test]
fn what_cannot_be_waited_for_is_refused_at_once() {
    let life = active();
    let own = suspend(life.id, life.fence);
    let (a, b) = (fresh(ANSWER, "answer"), fresh(EARLY, "b"));
    let pending = Binding::Pending { id: EARLY };
    let bound = |waitpoints: Vec<Binding>| Suspend { waitpoints, ..own.clone() };
    let many = 0..=u128::try_from(BINDINGS_MAX).unwrap();
    let many = many.map(|n| fresh(Uuid::from_u128(n), &n.to_string())).collect();
    for (command, said) in [
        (bound(Vec::new()), "waitpoints_empty"),
        (bound(vec![fresh(ANSWER, "other")]), "waitpoint_key_mismatch"),
        (
            bound(vec![a.clone(), pending]),
            "additional_waitpoint_binding_must_be_fresh at waitpoints[1]",
        ),
        (bound(vec![a.clone(), fresh(EARLY, "answer")]), "bound twice"),
        (bound(vec![a.clone(), fresh(ANSWER, "b")]), "bound twice"),
        (bound(many), "too many"),
        (
            Suspend { condition: ResumeCondition::TimeoutOnly, ..own.clone() },
            "timeout_only_without_deadline",
        ),
        (
            Suspend {
                condition: ResumeCondition::AllOf(vec![
                    own.condition.clone(),
                    ResumeCondition::TimeoutOnly,
                ]),
                ..own.clone()
            },
            "timeout_only_without_deadline",
        ),
        (
            Suspend { condition: ResumeCondition::AllOf(Vec::new()), ..own.clone() },
            "allof_empty_members",
        ),
        (Suspend { resume_delay_ms: DURATION_MS_MAX + 1, ..own.clone() }, "ten years"),
        (
            Suspend { continuation: Some("x".repeat(CONTINUATION_BYTES_MAX + 1)), ..own.clone() },
            "continuation_metadata_pointer",
        ),
    ] {
        let refused = Command::from(command).validate(&life.world.config).unwrap_err();
        assert!(refused.message.contains(said), "{refused}");
    }
    let both = ResumeCondition::AllOf(vec![single("answer"), single("c")]);
    for (condition, said) in [
        (single("answer"), "extra_binding_not_referenced_by_condition"),
        (both, "referenced_waitpoint_key_missing_binding"),
    ] {
        let waitpoints = vec![a.clone(), b.clone()];
        let refused = life.clone().refused(Suspend { waitpoints, condition, ..own.clone() });
        assert_eq!(refused.code, Code::InvalidInput);
        assert!(refused.message.contains(said), "{refused}");
    }
}

#[test]
fn a_waitpoint_is_made_once_and_closed_once() {
    let mut life = active();
    let (id, fence) = (life.id, life.fence);
    let token = life.tell(make_waitpoint(id, fence)).unwrap();
    assert_eq!(life.repeat(make_waitpoint(id, fence)), Some(token.clone()));
    let other = CreateWaitpoint { key: waitpoint_key("other"), ..make_waitpoint(id, fence) };
    assert_eq!(life.refused(other).code, Code::WaitpointAlreadyExists);
    let row = life.world.waits.waitpoint(id, EARLY).unwrap();
    assert_eq!(row.token_digest, token.digest());
    life.pass(5);
    life.tell(close_waitpoint(id, fence));
    let row = life.world.waits.waitpoint(id, EARLY).unwrap();
    let (at, reason) = (life.world.now, CloseReason::ProactiveClose);
    assert_eq!(row.state, WaitpointState::Closed { at, reason, activated_at: None });
    life.repeat(close_waitpoint(id, fence));
    let early = signal(&life.world, id, EARLY, 1);
    assert_eq!(life.refused(early).code, Code::WaitpointClosed);
}

#[test]
fn an_unused_waitpoint_expires_alone() {
    let mut life = answered_early(1);
    let before = life.x().clone();
    let expire = ExpireWaitpoint { id: life.id, waitpoint: EARLY };
    life.pass(UNUSED_MS - 1);
    assert!(!life.repeat(expire.clone()));
    life.pass(1);
    assert!(life.tell(expire.clone()));
    assert_eq!(life.x().state, before.state, "its execution runs");
    let row = life.world.waits.waitpoint(life.id, EARLY).unwrap();
    let (at, reason) = (life.world.now, CloseReason::NeverCommitted);
    assert_eq!(row.state, WaitpointState::Closed { at, reason, activated_at: None });
    assert!(!life.repeat(expire));
    // One that is waited at does not expire: its suspension does.
    let mut waits = suspended();
    waits.pass(100 * BACKOFF_MS);
    assert!(!waits.repeat(ExpireWaitpoint { id: waits.id, waitpoint: ANSWER }));
}
