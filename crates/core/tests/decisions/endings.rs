//! How an execution ends, that it ends once, and what is kept.

use bytes::Bytes;
use ff_core::Code;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::lease_expiry::{ExpireLease, LeaseChecked};
use ff_core::decide::retention::Trim;
use ff_core::decide::revoke::Revoked;
use ff_core::decide::{Failed, Lost};
use ff_core::event::{EventKind, EventName};
use ff_core::execution::{Ending, Fence, State, Terminal};
use ff_core::fold::BlobRef;
use ff_core::limits::RECLAIM_DELAY_MS;
use ff_core::policy::FailureClass;
use ff_core::state::{Phase, PublicState, TerminalOutcome};
use serde_json::json;

use crate::commands::{cancel, complete, fail, give_up, replay, revoke, set_tags};
use crate::samples::{DEADLINE_MS, RETENTION_MS, policy, samples};
use crate::world::{DAWN, LEASE_TTL_MS, Life, create};

fn active() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life
}

fn terminal(life: &Life) -> &Terminal {
    match &life.x().state {
        State::Terminal(terminal) => terminal,
        other => panic!("{other:?}"),
    }
}

fn lapse(life: &mut Life) -> LeaseChecked {
    life.pass(LEASE_TTL_MS);
    life.tell(ExpireLease { id: life.id, lease_epoch: life.fence.lease_epoch })
}

#[test]
fn a_completion_may_be_repeated_with_the_same_result_only() {
    let mut life = active();
    life.tell(complete(life.id, life.fence));
    let blob = &life.written.blobs[0];
    assert_eq!(blob.at, BlobRef::Result(life.id, 0));
    life.pass(10 * LEASE_TTL_MS);
    life.repeat(complete(life.id, life.fence));
    let result = Some(Bytes::from_static(b"another"));
    for other in [result, None] {
        let refused = life.refused(Complete { result: other, ..complete(life.id, life.fence) });
        assert_eq!(refused.code, Code::ResultConflict);
    }
    // Of what ended before digests were kept, nothing is compared.
    let Some(Some(x)) = life.world.rows.executions.get_mut(&life.id) else { panic!("it is there") };
    let State::Terminal(terminal) = &mut x.state else { panic!("it has ended") };
    terminal.ending = Ending::Success { result: true, digest: None };
    life.repeat(Complete { result: None, ..complete(life.id, life.fence) });
}

#[test]
fn a_completion_without_a_result_keeps_none() {
    let mut life = active();
    life.tell(Complete { result: None, ..complete(life.id, life.fence) });
    assert!(life.written.blobs.is_empty());
    assert!(matches!(terminal(&life).ending, Ending::Success { result: false, .. }));
}

#[test]
fn a_failure_may_be_repeated_for_the_same_answer() {
    let mut life = active();
    let failure = fail(life.id, life.fence, FailureClass::Transient);
    let first = life.tell(failure.clone());
    assert!(matches!(first, Failed::RetryScheduled { next_attempt_index: 1, .. }));
    life.pass(1_000_000);
    assert_eq!(life.repeat(failure.clone()), first);
    life.claim();
    assert_eq!(life.refused(failure).code, Code::StaleLease);
    let failure = fail(life.id, life.fence, FailureClass::Permanent);
    assert_eq!(life.tell(failure.clone()), Failed::TerminalFailed);
    assert_eq!(life.repeat(failure), Failed::TerminalFailed);
}

#[test]
fn the_same_fence_with_another_outcome_is_told_the_stored_one() {
    let last_words = |life: &mut Life, n: usize| match n {
        0 => life.refused(complete(life.id, life.fence)),
        1 => life.refused(fail(life.id, life.fence, FailureClass::Permanent)),
        _ => life.refused(give_up(life.id, life.fence)),
    };
    let (mut completed, mut failed, mut given_up) = (active(), active(), active());
    completed.tell(complete(completed.id, completed.fence));
    failed.tell(fail(failed.id, failed.fence, FailureClass::Permanent));
    given_up.tell(give_up(given_up.id, given_up.fence));
    let outcomes = [TerminalOutcome::Success, TerminalOutcome::Failed, TerminalOutcome::Cancelled];
    for (own, life) in [completed, failed, given_up].iter_mut().enumerate() {
        for other in (0..3).filter(|n| *n != own) {
            let refused = last_words(life, other);
            assert_eq!(refused.code, Code::ExecutionNotActive);
            assert_eq!(refused.standing.unwrap().outcome, Some(outcomes[own]));
        }
    }
}

#[test]
fn the_same_outcome_with_another_fence_is_refused() {
    let mut life = active();
    life.tell(complete(life.id, life.fence));
    let epoch = life.fence.lease_epoch;
    for (attempt_index, lease_epoch) in
        [(0, epoch - 1), (0, epoch + 1), (1, epoch), (u32::MAX, epoch), (0, u64::MAX)]
    {
        let other = Fence { attempt_index, lease_epoch };
        let refused = life.refused(complete(life.id, other));
        assert_eq!(refused.code, Code::ExecutionNotActive, "{other:?}");
    }
}

#[test]
fn a_deadline_ends_whatever_was_going_on() {
    for sample in samples() {
        let mut life = sample.life;
        let Some(x) = life.find().cloned() else {
            continue;
        };
        let Some(deadline) = x.deadline_at.filter(|_| x.state.phase() != Phase::Terminal) else {
            continue;
        };
        life.events.clear();
        life.world.now = deadline;
        assert!(life.tell(ExpireExecution { id: life.id }), "{}", sample.name);
        assert_eq!(life.states().0, PublicState::Expired, "{}", sample.name);
        let completions = life.told().into_iter().filter(|n| *n == EventName::Completion);
        assert_eq!(completions.count(), 1, "{}", sample.name);
        assert!(!life.repeat(ExpireExecution { id: life.id }));
        let late = life.refused(complete(life.id, life.fence));
        assert_eq!(late.code, Code::ExecutionNotActive);
    }
}

#[test]
fn a_deadline_that_has_not_come_ends_nothing() {
    let mut life = active();
    life.world.now = DAWN.plus(DEADLINE_MS - 1);
    assert!(!life.repeat(ExpireExecution { id: life.id }));
}

#[test]
fn two_deadlines_exclude_each_other() {
    let relative = json!({"timeout_policy": {"execution_deadline_ms": 500}});
    let both = Create {
        policy: ff_core::Policy::parse(&relative).unwrap(),
        deadline_at: Some(DAWN.plus(400)),
        ..create(1)
    };
    let refused = ff_core::Command::from(both).validate(&ff_core::Config::default()).unwrap_err();
    assert_eq!(refused.field, Some("execution_deadline_at"));
}

#[test]
fn a_lease_lost_too_often_fails_the_execution() {
    let mut life = Life::under(&json!({"max_reclaim_count": 2}));
    for _ in 0..2 {
        life.claim();
        assert_eq!(lapse(&mut life), LeaseChecked::Expired(Lost::Requeued));
    }
    life.pass(RECLAIM_DELAY_MS);
    life.claim();
    life.told();
    let lost = lapse(&mut life);
    assert_eq!(lost, LeaseChecked::Expired(Lost::ReclaimsExhausted));
    assert_eq!(life.told(), [EventName::LeaseExpired, EventName::Completion]);
    let Ending::Failed(failure) = &terminal(&life).ending else { panic!("{:?}", life.x()) };
    assert_eq!(failure.reason, "max_reclaims_exceeded");
    assert_eq!(failure.category.as_str(), "infra_crash");
    assert_eq!(life.x().counts.reclaims, 2);
    let late = life.refused(complete(life.id, life.fence));
    assert_eq!(late.code, Code::ExecutionNotActive);
}

#[test]
fn a_revoked_lease_counts_as_a_lost_one() {
    let mut life = Life::under(&json!({"max_reclaim_count": 0}));
    life.claim();
    let revoked = life.tell(revoke(life.id));
    let lost = Lost::ReclaimsExhausted;
    assert_eq!(revoked, Revoked::Revoked { lease_epoch: life.fence.lease_epoch, lost });
    assert_eq!(life.states().0, PublicState::Failed);
    assert_eq!(life.told(), [EventName::LeaseRevoked, EventName::Completion]);
}

#[test]
fn a_finished_execution_is_kept_as_long_as_its_policy_says() {
    let mut life = active();
    life.tell(complete(life.id, life.fence));
    assert_eq!(terminal(&life).retain_until, life.world.now.plus(RETENTION_MS));
    life.pass(RETENTION_MS - 1);
    assert!(!life.repeat(Trim { id: life.id }));
    life.pass(1);
    assert!(life.tell(Trim { id: life.id }));
    assert!(life.find().is_none());
    assert!(!life.repeat(Trim { id: life.id }));
}

#[test]
fn without_a_policy_the_deployment_says_how_long_it_is_kept() {
    let mut life = Life::under(&json!({}));
    life.world.config.retention_ms = 77;
    life.tell(cancel(life.id));
    assert_eq!(terminal(&life).retain_until, life.world.now.plus(77));
}

#[test]
fn what_may_not_be_kept_at_all_may_go_at_once() {
    let mut life = Life::under(&json!({"retention_ms": 0}));
    life.claim();
    assert!(!life.repeat(Trim { id: life.id }));
    life.tell(complete(life.id, life.fence));
    assert!(life.tell(Trim { id: life.id }));
}

#[test]
fn nothing_that_has_not_ended_or_goes_with_its_flow_is_ever_trimmed() {
    for sample in samples() {
        let mut life = sample.life;
        let ended =
            life.find().is_some_and(|x| x.state.phase() == Phase::Terminal && x.flow().is_none());
        if ended {
            life.tell(set_tags(life.id, &[], &["shop.city"]));
        }
        life.pass(1_000 * RETENTION_MS);
        assert_eq!(life.tell(Trim { id: life.id }), ended, "{}", sample.name);
    }
}

#[test]
fn a_replayed_execution_is_not_trimmed_by_its_old_timer() {
    let mut life = active();
    life.tell(complete(life.id, life.fence));
    life.tell(replay(life.id));
    life.pass(RETENTION_MS);
    assert!(!life.repeat(Trim { id: life.id }));
}

#[test]
fn a_completion_event_says_how_and_with_which_attempt_it_ended() {
    let mut life = active();
    life.tell(fail(life.id, life.fence, FailureClass::Permanent));
    let expected = EventKind::Completion {
        outcome: TerminalOutcome::Failed,
        attempt_index: Some(0),
        reason: Some("the bank is closed".to_owned()),
    };
    assert_eq!(life.events[0].kind, expected);
    let mut life = Life::under(&policy());
    life.tell(cancel(life.id));
    let expected = EventKind::Completion {
        outcome: TerminalOutcome::Cancelled,
        attempt_index: None,
        reason: Some("no longer wanted".to_owned()),
    };
    assert_eq!(life.events[0].kind, expected);
}
