//! Steps: a journal that only grows, belongs to who holds the lease, and outlives attempts.

use std::sync::Arc;

use bytes::Bytes;
use ff_core::backend::Duty;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::delay::Delay;
use ff_core::decide::renew::Renew;
use ff_core::decide::replay::Replay;
use ff_core::decide::steps::RecordSteps;
use ff_core::error::Code;
use ff_core::limits::STEPS_MAX;
use ff_core::query::{After, Depth, Page, Query, Rows};
use ff_core::state::PublicState;
use ff_core::step::{Step, StepKind, StepOutcome, StepRecord};
use ff_core::text::{OperationId, StepName};
use ff_core::{Command, ExecutionId, Fence, Millis};
use serde_json::json;

use super::calls::retrying;
use crate::world::{TTL_MS, World, code, lane};

/// A step whose result is its name.
pub fn step(number: u32, name: &str) -> Step {
    let bytes = Bytes::copy_from_slice(name.as_bytes());
    Step { ran_ms: 7, ..Step::run(number, StepName::new(name).expect("a valid name"), bytes) }
}

/// A command that records steps of these numbers and names.
pub fn record(id: ExecutionId, fence: Fence, steps: &[(u32, &str)]) -> RecordSteps {
    let steps = steps.iter().map(|(number, name)| step(*number, name)).collect();
    RecordSteps { id, fence, steps }
}

/// The journal of an execution.
pub async fn journal(w: &World, id: ExecutionId) -> Vec<StepRecord> {
    match w.list(&Query::Steps(id), 1_000).await {
        Rows::Steps(steps) => steps,
        other => panic!("steps were asked for, not {other:?}"),
    }
}

async fn names(w: &World, id: ExecutionId) -> Vec<String> {
    journal(w, id).await.iter().map(|record| record.step.name.to_string()).collect()
}

/// What was recorded is there, with when and by which attempt.
pub async fn steps_read_back_in_order(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(0, "quote"), (1, "pay")])).await.expect("it is held");
    w.pass(50);
    let encoding = Some("json".parse().expect("a valid encoding"));
    let sleep = Step { kind: StepKind::Sleep, encoding, ..step(2, "an hour; or two") };
    let steps = vec![sleep.clone()];
    w.run(RecordSteps { id, fence, steps }).await.expect("it is held");
    let found = journal(&w, id).await;
    assert_eq!(found.len(), 3);
    assert_eq!(found[2].step, sleep);
    assert_eq!((found[0].at, found[2].at), (w.now().minus(50), w.now()));
    assert_eq!(found[0].attempt_index, 0);
    let x = w.get(id).await;
    assert_eq!(x.version, 2, "recording does not touch the execution");
    assert!(w.event_names(id).await.is_empty());
}

/// A long journal is read in pages.
pub async fn steps_are_paged_by_number(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let steps = (0..5).map(|number| step(number, "again")).collect();
    w.run(RecordSteps { id, fence, steps }).await.expect("it is held");
    let mut page = Page::first(2);
    let mut numbers = Vec::new();
    loop {
        let listing = w.store.backend.list(&Query::Steps(id), &page).await.expect("it works");
        let Rows::Steps(steps) = listing.rows else { panic!("steps were asked for") };
        numbers.push(steps.iter().map(|record| record.step.number).collect::<Vec<_>>());
        let Some(next) = listing.next else { break };
        assert!(matches!(next, After::Number(_)));
        page.after = Some(next);
    }
    assert_eq!(numbers, [vec![0, 1], vec![2, 3], vec![4]]);
}

/// Whoever lost an answer sends the call again, together with new steps perhaps.
pub async fn a_step_sent_again_is_recorded_once(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    let mut again = record(id, fence, &[(0, "quote"), (1, "pay")]);
    again.steps[0].ran_ms = 99;
    w.run(again).await.expect("it is the same step");
    assert_eq!(names(&w, id).await, ["quote", "pay"]);
    assert_eq!(journal(&w, id).await[0].step.ran_ms, 7, "the first one counts");
}

/// Code that changed its order is told what is recorded and what it tried.
pub async fn a_number_recorded_under_another_name_is_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    let refused =
        w.run(record(id, fence, &[(0, "pay"), (1, "ship")])).await.expect_err("it is refused");
    assert_eq!(refused.code, Code::StepConflict);
    for said in ["step 0", "run \"quote\"", "run \"pay\""] {
        assert!(refused.message.contains(said), "{}", refused.message);
    }
    assert_eq!(names(&w, id).await, ["quote"], "nothing of it is recorded");
}

/// A step does not change its result.
pub async fn another_result_for_a_recorded_step_is_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    let mut other = record(id, fence, &[(0, "quote")]);
    other.steps[0].bytes = Bytes::from_static(b"more");
    assert_eq!(code(w.run(other).await), Code::StepConflict);
}

/// Only who holds the execution adds to its journal.
pub async fn a_stale_worker_cannot_record(w: Arc<World>) {
    let (id, fence) = w.running(retrying(3, 0)).await;
    w.fail(id, fence).await.expect("it is held");
    assert_eq!(code(w.run(record(id, fence, &[(0, "late")])).await), Code::ExecutionNotActive);
    let new = w.take(id).await.leased.fence;
    assert_eq!(code(w.run(record(id, fence, &[(0, "late")])).await), Code::StaleLease);
    w.complete(id, new).await.expect("it is held");
    assert_eq!(code(w.run(record(id, new, &[(0, "late")])).await), Code::ExecutionNotActive);
    assert!(journal(&w, id).await.is_empty());
}

/// A lease that ran out is over, whether or not anybody has noticed.
pub async fn a_lease_that_ran_out_records_nothing(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(i64::try_from(TTL_MS).expect("a small number"));
    assert_eq!(code(w.run(record(id, fence, &[(0, "late")])).await), Code::LeaseExpired);
    assert!(journal(&w, id).await.is_empty());
}

/// The next attempt goes on where the last one stopped.
pub async fn steps_outlive_their_attempt(w: Arc<World>) {
    let (id, fence) = w.running(retrying(3, 0)).await;
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    w.fail(id, fence).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.run(record(id, fence, &[(0, "quote"), (1, "pay")])).await.expect("it is held");
    let attempts: Vec<_> = journal(&w, id).await.iter().map(|r| r.attempt_index).collect();
    assert_eq!(attempts, [0, 1]);
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(names(&w, id).await, ["quote", "pay"], "and the end");
}

/// A release undoes the claim, not what was done under it; the claim after it can tell.
pub async fn steps_outlive_a_release(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    assert!(!w.get(id).await.was_held_before());
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    w.release(id, fence).await.expect("it is held");
    let leased = w.take(id).await.leased;
    assert_eq!(leased.kind, ClaimKind::First);
    assert!(leased.execution.was_held_before(), "there may be steps");
    assert_eq!(names(&w, id).await, ["quote"]);
}

/// A replay after a failure goes on after the last step.
pub async fn a_replay_of_what_failed_keeps_its_steps(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    w.fail(id, fence).await.expect("it is held");
    w.run(Replay { id, reason: "fixed".to_owned(), replays: None, downstream: true })
        .await
        .expect("it has ended");
    assert_eq!(names(&w, id).await, ["quote"]);
}

/// A replay after a success does everything again.
pub async fn a_replay_of_what_succeeded_begins_anew(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    w.complete(id, fence).await.expect("it is held");
    w.run(Replay { id, reason: "once more".to_owned(), replays: None, downstream: true })
        .await
        .expect("it has ended");
    let fence = w.take(id).await.leased.fence;
    w.run(record(id, fence, &[(1, "another")])).await.expect("it is held");
    let found = journal(&w, id).await;
    assert_eq!(names(&w, id).await, ["generation", "another"]);
    assert_eq!((found[0].step.kind, &found[0].step.bytes[..]), (StepKind::Generation, &b"1"[..]));
    // A replay of a failure goes on with the generation.
    w.fail(id, fence).await.expect("it is held");
    w.run(Replay { id, reason: "fixed".to_owned(), replays: None, downstream: true })
        .await
        .expect("it has ended");
    assert_eq!(journal(&w, id).await, found);
}

/// What opens a generation is no progress of an attempt that is lost before it does anything.
pub async fn a_new_generation_is_no_progress(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.complete(id, fence).await.expect("it is held");
    w.run(Replay { id, reason: "once more".to_owned(), replays: None, downstream: true })
        .await
        .expect("it has ended");
    for lost in 1..=2 {
        w.pass(60_000);
        w.take(id).await;
        w.pass(i64::try_from(TTL_MS).expect("a small number"));
        w.tick(Duty::LeaseExpiry).await;
        assert_eq!(w.get(id).await.counts.reclaims, lost);
    }
}

/// Whatever became of a step is read back as it was said.
pub async fn outcomes_of_steps_read_back(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let json = Some("json".parse().expect("a valid encoding"));
    let failure = br#"{"message":"no van: busy","category":"van","class":"transient"}"#;
    let of = |number, outcome, bytes: &'static [u8]| Step {
        outcome,
        operation: Some(OperationId::new(format!("{number}/1.0")).expect("a valid text")),
        time: Some(w.now().minus(3)),
        encoding: json.clone().filter(|_| !bytes.is_empty()),
        bytes: Bytes::from_static(bytes),
        ..step(number, "ship")
    };
    let steps = vec![
        of(0, StepOutcome::Open, b"{}"),
        of(1, StepOutcome::Failed, failure),
        of(2, StepOutcome::Fired, b""),
        of(3, StepOutcome::Won, b"1"),
        of(4, StepOutcome::Abandoned, b""),
        of(5, StepOutcome::Done, b"null"),
    ];
    w.run(RecordSteps { id, fence, steps: steps.clone() }).await.expect("it is held");
    let found: Vec<_> = journal(&w, id).await.into_iter().map(|record| record.step).collect();
    assert_eq!(found, steps);
    let mut other = steps[3].clone();
    other.bytes = Bytes::from_static(b"0");
    let refused = w.run(RecordSteps { id, fence, steps: vec![other] }).await;
    assert_eq!(code(refused), Code::StepConflict, "another arm won");
    let result = |outcome, bytes: &'static [u8]| Step {
        outcome,
        bytes: Bytes::from_static(bytes),
        ..step(9, "wrong")
    };
    let wrong = [
        result(StepOutcome::Failed, b"\"no\""),
        result(StepOutcome::Won, b"left"),
        result(StepOutcome::Fired, b"1"),
        result(StepOutcome::Abandoned, b"1"),
        Step { kind: StepKind::Generation, ..step(9, "generation") },
        Step { time: Some(Millis(-1)), ..step(9, "early") },
    ];
    for step in wrong {
        let refused = w.run(RecordSteps { id, fence, steps: vec![step.clone()] }).await;
        assert_eq!(code(refused), Code::InvalidInput, "{step:?}");
    }
    assert_eq!(journal(&w, id).await.len(), 6);
}

/// Retention leaves no steps behind.
pub async fn steps_go_with_their_execution(w: Arc<World>) {
    let (id, fence) = w.running(json!({"retention_ms": 1_000})).await;
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    w.complete(id, fence).await.expect("it is held");
    w.pass(1_000);
    w.tick(Duty::Retention).await;
    assert!(w.find(id).await.is_none());
    assert!(journal(&w, id).await.is_empty());
}

/// What is recorded and what follows it in the same batch are written together.
pub async fn steps_and_what_follows_them_go_together(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let (other, its) = w.running(json!({})).await;
    let delay_until = w.now().plus(500);
    let batch: Vec<Command> = vec![
        record(id, fence, &[(0, "nap")]).into(),
        Delay { id, fence, delay_until, steps: vec![] }.into(),
        record(other, its, &[(0, "pay")]).into(),
        Complete { id: other, fence: its, result: None, encoding: None }.into(),
        record(other, its, &[(1, "too late")]).into(),
    ];
    let outcomes = w.batch(batch).await;
    assert!(outcomes[..4].iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(outcomes[4].as_ref().expect_err("it is refused").code, Code::ExecutionNotActive);
    assert_eq!(
        (names(&w, id).await, names(&w, other).await),
        (vec!["nap".into()], vec!["pay".into()])
    );
    assert_eq!(w.state(id).await, PublicState::Delayed);
    assert_eq!(w.state(other).await, PublicState::Completed);
}

/// A sleep is recorded and the execution given back with one command, also when its answer was lost.
pub async fn a_delay_records_its_steps(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(0, "quote")])).await.expect("it is held");
    let delay_until = w.now().plus(500);
    let steps = vec![step(0, "quote"), step(1, "nap")];
    let delay = Delay { id, fence, delay_until, steps };
    let delayed = w.run(delay.clone()).await.expect("it is held");
    assert_eq!(delayed.delay_until, delay_until);
    let recorded = journal(&w, id).await;
    assert_eq!((recorded[1].attempt_index, recorded[1].at), (0, w.now()));
    w.pass(1);
    assert_eq!(w.run(delay.clone()).await, Ok(delayed));
    assert_eq!(journal(&w, id).await, recorded);
    assert_eq!(names(&w, id).await, ["quote", "nap"]);
    assert_eq!(w.state(id).await, PublicState::Delayed);
    w.pass(499);
    w.take(id).await;
    assert_eq!(code(w.run(delay).await), Code::StaleLease);
    assert_eq!(journal(&w, id).await, recorded);
}

/// A delay whose steps are refused does not give the execution back, nor record any of them.
pub async fn a_delay_with_conflicting_steps_changes_nothing(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(1, "nap")])).await.expect("it is held");
    let delay_until = w.now().plus(500);
    let delay = |steps| Delay { id, fence, delay_until, steps };
    let refused = w.run(delay(vec![step(0, "new"), step(1, "other")])).await;
    assert_eq!(code(refused), Code::StepConflict);
    let disordered = w.run(delay(vec![step(3, "b"), step(2, "a")])).await;
    assert_eq!(code(disordered), Code::InvalidInput);
    let absurd = Delay { delay_until: Millis(-1), ..delay(vec![step(2, "a")]) };
    assert_eq!(code(w.run(absurd).await), Code::InvalidInput);
    assert_eq!(w.state(id).await, PublicState::Active);
    assert_eq!(names(&w, id).await, ["nap"]);
    w.complete(id, fence).await.expect("it is still held");
}

/// Workers' steps travel together; one that is refused takes nobody with it.
pub async fn steps_of_many_are_recorded_together(w: Arc<World>) {
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(w.running(json!({})).await);
    }
    w.revoke(held[2].0).await.expect("it is held");
    let batch = held.iter().map(|(id, fence)| record(*id, *fence, &[(0, "a"), (1, "b")]).into());
    let outcomes = w.batch(batch.collect()).await;
    let codes: Vec<_> =
        outcomes.iter().map(|outcome| outcome.as_ref().err().map(|r| r.code)).collect();
    assert_eq!(codes, [None, None, Some(Code::LeaseRevoked), None]);
    for (at, (id, _)) in held.iter().enumerate() {
        assert_eq!(journal(&w, *id).await.len(), if at == 2 { 0 } else { 2 });
    }
}

/// Renewing moves the lease; what is recorded under it does not care.
pub async fn a_renewal_does_not_disturb_recording(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(100);
    let renew = Renew { id, fence, lease_ttl_ms: 2 * TTL_MS };
    let batch = vec![
        record(id, fence, &[(0, "a")]).into(),
        renew.into(),
        record(id, fence, &[(1, "b")]).into(),
    ];
    assert!(w.batch(batch).await.iter().all(Result::is_ok));
    w.pass(i64::try_from(TTL_MS).expect("a small number"));
    w.run(record(id, fence, &[(2, "c")])).await.expect("it was renewed");
    assert_eq!(names(&w, id).await, ["a", "b", "c"]);
}

/// There is an end to every journal.
pub async fn a_full_journal_is_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(record(id, fence, &[(STEPS_MAX - 1, "last")])).await.expect("it is the last one");
    let refused =
        w.run(record(id, fence, &[(STEPS_MAX, "more")])).await.expect_err("it is refused");
    assert_eq!(refused.code, Code::JournalFull);
    assert!(refused.message.contains("more"), "{}", refused.message);
}

/// What makes no sense is refused before anything is done.
pub async fn malformed_steps_are_refused(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let refused = |steps: Vec<Step>| w.run(RecordSteps { id, fence, steps });
    assert_eq!(code(refused(vec![]).await), Code::InvalidInput);
    assert_eq!(code(refused(vec![step(1, "b"), step(0, "a")]).await), Code::InvalidInput);
    assert_eq!(code(refused(vec![step(1, "b"), step(1, "b")]).await), Code::InvalidInput);
    let large = Bytes::from(vec![0; w.store.backend.config().payload_bytes_max + 1]);
    let large = Step { bytes: large, ..step(0, "large") };
    assert_eq!(code(refused(vec![large]).await), Code::PayloadTooLarge);
    let long = Step { ran_ms: u64::MAX, ..step(0, "long") };
    assert_eq!(code(refused(vec![long]).await), Code::InvalidInput);
    assert!(StepName::new("a\0b").is_err());
    assert!(journal(&w, id).await.is_empty());
}

/// How deep a lane is, and since when what is next waits.
pub async fn lanes_tell_how_much_is_claimable(w: Arc<World>) {
    let depths = || async {
        match w.list(&Query::Depths, 1_000).await {
            Rows::Depths(depths) => depths,
            other => panic!("depths were asked for, not {other:?}"),
        }
    };
    assert_eq!(depths().await, []);
    let begun = w.now();
    let first = w.create(w.draft()).await;
    w.pass(10);
    w.create(w.draft()).await;
    let policy = json!({"routing_requirements": {"required_capabilities": ["gpu"]}});
    w.create_with(policy).await;
    w.create(Create { delay_ms: Some(1_000), ..w.draft() }).await;
    let other = w.create(Create { lane: lane("other"), ..w.draft() }).await;
    let depth = |name: &str, waiting, oldest: Option<Millis>| Depth {
        lane: lane(name),
        waiting,
        capped: false,
        oldest,
    };
    let expected = [depth("default", 3, Some(begun)), depth("other", 1, Some(begun.plus(10)))];
    assert_eq!(depths().await, expected);
    w.take(first).await;
    w.cancel(other).await.expect("it waits");
    let expected = [depth("default", 2, Some(begun.plus(10))), depth("other", 0, None)];
    assert_eq!(depths().await, expected);
}
