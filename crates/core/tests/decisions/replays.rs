//! Replaying: a finished execution runs again, counts from zero, and keeps its history.

use ff_core::Code;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::create::Create;
use ff_core::decide::deadline::ExpireExecution;
use ff_core::decide::lease_expiry::ExpireLease;
use ff_core::event::{EventKind, EventName};
use ff_core::execution::{AttemptOutcome, Counts};
use ff_core::fold::BlobRef;
use ff_core::policy::FailureClass;
use ff_core::state::{AttemptState, Phase, PublicState, TerminalOutcome};
use ff_core::view::ExecutionSnapshot;
use serde_json::json;

use crate::commands::{cancel, complete, fail, hold, progress, release, replay};
use crate::samples::{BACKOFF_MS, DEADLINE_MS, policy, samples};
use crate::world::{DAWN, LEASE_TTL_MS, Life, create};

fn completed() -> Life {
    let mut life = Life::under(&policy());
    life.claim();
    life.tell(progress(life.id, life.fence, 90));
    life.tell(complete(life.id, life.fence));
    life
}

#[test]
fn everything_that_ended_outside_a_flow_may_be_replayed_and_nothing_else() {
    for sample in samples() {
        let mut life = sample.life;
        let Some(x) = life.find().cloned() else {
            continue;
        };
        let pending = life.states().1 == AttemptState::PendingReplayAttempt;
        let left = x.counts.replays < x.spec.policy.max_replays();
        if pending {
            life.repeat(replay(life.id));
        } else if x.state.phase() != Phase::Terminal {
            let refused = life.refused(replay(life.id));
            assert_eq!(refused.code, Code::ExecutionNotTerminal, "{}", sample.name);
        } else if x.flow().is_some() {
            // Whether a member may be replayed is a matter of its flow.
        } else if left {
            life.tell(replay(life.id));
            let states = (PublicState::Waiting, AttemptState::PendingReplayAttempt);
            assert_eq!(life.states(), states, "{}", sample.name);
        } else {
            let refused = life.refused(replay(life.id));
            assert_eq!(refused.code, Code::MaxReplaysExhausted, "{}", sample.name);
        }
    }
}

#[test]
fn a_replay_counts_retries_and_lost_leases_from_zero_and_attempts_on() {
    let mut life = Life::under(&policy());
    life.claim();
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    life.pass(BACKOFF_MS);
    life.claim();
    life.pass(LEASE_TTL_MS);
    life.tell(ExpireLease { id: life.id, lease_epoch: life.fence.lease_epoch });
    life.claim();
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    let spent = Counts { attempts: 3, retries: 1, reclaims: 1, replays: 0 };
    assert_eq!(life.x().counts, spent);
    life.tell(replay(life.id));
    let fresh = Counts { attempts: 3, retries: 0, reclaims: 0, replays: 1 };
    assert_eq!(life.x().counts, fresh);
    let leased = life.claim();
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Replayed, 3));
    life.tell(fail(life.id, life.fence, FailureClass::Transient));
    assert_eq!(life.states().0, PublicState::Delayed, "it has its retries again");
}

#[test]
fn a_replay_keeps_history_and_hides_the_old_result_and_progress() {
    let mut life = completed();
    life.tell(replay(life.id));
    assert_eq!(life.history.len(), 1);
    assert_eq!(life.history[0].outcome, AttemptOutcome::Success);
    let snapshot = ExecutionSnapshot::of(life.x(), life.world.now);
    assert_eq!(snapshot.completed_at, None);
    assert_eq!(snapshot.current_attempt, None);
    assert_eq!(snapshot.progress, None);
    life.claim();
    life.tell(complete(life.id, life.fence));
    assert_eq!(life.written.blobs[0].at, BlobRef::Result(life.id, 1));
}

#[test]
fn a_replay_tells_how_it_had_ended_and_why_it_runs_again() {
    let mut life = completed();
    life.told();
    life.tell(replay(life.id));
    let expected =
        EventKind::Replayed { outcome: TerminalOutcome::Success, reason: "try again".to_owned() };
    assert_eq!(life.events[0].kind, expected);
}

#[test]
fn a_replay_may_be_repeated_until_a_worker_takes_it() {
    let mut life = completed();
    life.tell(replay(life.id));
    life.tell(hold(life.id));
    life.repeat(replay(life.id));
    assert_eq!(life.x().counts.replays, 1);
    life.tell(ff_core::decide::unhold::Unhold { id: life.id, version: None });
    life.claim();
    let refused = life.refused(replay(life.id));
    assert_eq!(refused.code, Code::ExecutionNotTerminal);
    life.tell(release(life.id, life.fence));
    let refused = life.refused(replay(life.id));
    assert_eq!(refused.code, Code::ExecutionNotTerminal);
}

#[test]
fn replays_are_limited_by_the_policy() {
    let mut life = Life::under(&json!({"max_replay_count": 2}));
    for _ in 0..2 {
        life.tell(cancel(life.id));
        life.tell(replay(life.id));
    }
    life.tell(cancel(life.id));
    let refused = life.refused(replay(life.id));
    assert_eq!(refused.code, Code::MaxReplaysExhausted);
    let mut life = Life::under(&json!({"max_replay_count": 0}));
    life.tell(cancel(life.id));
    let refused = life.refused(replay(life.id));
    assert_eq!(refused.code, Code::MaxReplaysExhausted);
}

#[test]
fn a_relative_deadline_starts_again_with_a_replay() {
    let mut life = completed();
    life.pass(DEADLINE_MS);
    life.tell(replay(life.id));
    assert_eq!(life.x().deadline_at, Some(life.world.now.plus(DEADLINE_MS)));
    assert!(!life.repeat(ExpireExecution { id: life.id }));
}

fn with_absolute_deadline() -> Life {
    let mut life = Life::begin(Create { deadline_at: Some(DAWN.plus(1_000)), ..create(1) });
    life.tell(cancel(life.id));
    life
}

#[test]
fn an_absolute_deadline_stays_with_a_replay_until_it_has_passed() {
    let mut life = with_absolute_deadline();
    life.pass(999);
    life.tell(replay(life.id));
    assert_eq!(life.x().deadline_at, Some(DAWN.plus(1_000)));
    let mut life = with_absolute_deadline();
    life.pass(1_000);
    life.tell(replay(life.id));
    assert_eq!(life.x().deadline_at, None);
}

#[test]
fn a_replay_of_what_was_never_attempted_adds_nothing_to_history() {
    let mut life = Life::under(&policy());
    life.tell(cancel(life.id));
    life.tell(replay(life.id));
    assert!(life.history.is_empty());
    assert_eq!(life.claim().fence.attempt_index, 0);
    assert_eq!(life.told(), [EventName::Completion, EventName::Replayed]);
}

#[test]
fn a_replayed_execution_ends_again_with_a_completion_of_its_own() {
    let mut life = completed();
    life.tell(replay(life.id));
    life.claim();
    life.tell(complete(life.id, life.fence));
    let expected = [EventName::Completion, EventName::Replayed, EventName::Completion];
    assert_eq!(life.told(), expected);
}
