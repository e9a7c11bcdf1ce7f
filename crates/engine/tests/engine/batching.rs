//! Calls made together travel together, within bounds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::hold::Hold;
use ff_core::decide::resume::Resume;
use ff_core::decide::steps::RecordSteps;
use ff_core::step::Step;
use ff_core::suspension::Effect;
use ff_core::text::StepName;
use ff_core::{Code, ExecutionId, Fence};
use ff_engine::{Engine, Error, Options};
use tokio::task::JoinSet;

use crate::slow::{Slow, slow};
use crate::world;

/// An engine with one flight at a time, before a store that waits to be let through.
fn gated(options: &Options) -> (Engine, Arc<Slow>, ff_conformance::World) {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine =
        Engine::with_options(Arc::clone(&slow) as _, &Options { flights: 1, ..options.clone() });
    (engine, slow, world)
}

/// Lets everything that is ready to run do so.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_that_arrive_while_a_batch_is_under_way_share_the_next_one() {
    let (engine, slow, world) = gated(&Options::default());
    let mut calls = Vec::new();
    for _ in 0..100 {
        let (engine, draft) = (engine.clone(), world.draft());
        calls.push(tokio::spawn(async move { engine.create_execution(draft).await }));
        settle().await;
    }
    assert_eq!(slow.obstacle.batches.load(Ordering::SeqCst), 1, "the first went at once");
    slow.obstacle.permits.add_permits(2);
    for call in calls {
        assert!(matches!(call.await.unwrap(), Ok(Created::Created { .. })));
    }
    assert_eq!(slow.obstacle.batches.load(Ordering::SeqCst), 2, "the other 99 went together");
}

#[tokio::test]
async fn a_resume_that_is_late_lets_go_of_no_later_wait() {
    let (engine, slow, world) = gated(&Options::default());
    let (_, mailbox) = world.waiting().await;
    let resume = Resume {
        id: mailbox.id,
        suspension: None,
        reason: "enough".to_owned(),
        resume_delay_ms: 0,
    };
    let resumed = tokio::spawn(async move { engine.resume_execution(resume).await });
    settle().await;
    world.deliver(mailbox.signal(&world, "done")).await;
    let work = world.claim(world.ask(1)).await.remove(0);
    let later = world.suspend(world.pause(mailbox.id, work.leased.fence)).await.remove(0);
    slow.obstacle.permits.add_permits(1);
    let refused = resumed.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::ExecutionNotSuspended);
    assert_eq!(world.deliver(later.signal(&world, "done")).await, Effect::ConditionSatisfied);
}

#[tokio::test]
async fn a_resume_that_found_no_wait_lets_go_of_none_that_begins_meanwhile() {
    let (engine, slow, world) = gated(&Options::default());
    let (id, fence) = world.running(serde_json::json!({})).await;
    let (reason, resume_delay_ms) = ("enough".to_owned(), 0);
    let resume = Resume { id, suspension: None, reason, resume_delay_ms };
    let resumed = tokio::spawn(async move { engine.resume_execution(resume).await });
    settle().await;
    let mailbox = world.suspend(world.pause(id, fence)).await.remove(0);
    slow.obstacle.permits.add_permits(1);
    let refused = resumed.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::ExecutionNotSuspended);
    assert_eq!(world.deliver(mailbox.signal(&world, "done")).await, Effect::ConditionSatisfied);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_takes_long_is_not_waited_for() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine = Engine::new(Arc::clone(&slow) as _);
    let batches = || slow.obstacle.batches.load(Ordering::SeqCst);
    let mut calls = Vec::new();
    for (passed_ms, expected) in [(0, 1), (49, 1), (1, 2), (100, 2)] {
        tokio::time::advance(Duration::from_millis(passed_ms)).await;
        let (engine, draft) = (engine.clone(), world.draft());
        calls.push(tokio::spawn(async move { engine.create_execution(draft).await }));
        settle().await;
        assert_eq!(batches(), expected, "{passed_ms} ms later");
    }
    slow.obstacle.permits.add_permits(3);
    for call in calls {
        assert!(matches!(call.await.unwrap(), Ok(Created::Created { .. })));
    }
    assert_eq!(batches(), 3, "there are two at a time at most");
}

#[tokio::test(start_paused = true)]
async fn a_second_batch_of_steps_goes_beside_the_first_when_many_wait() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine = Engine::new(Arc::clone(&slow) as _);
    let batches = || slow.obstacle.batches.load(Ordering::SeqCst);
    let mut calls = Vec::new();
    // Many is a matter of steps, not of calls: a batch stays within its bound.
    for (steps, expected) in [(1, 1), (1, 1), (62, 1), (1, 2), (64, 2)] {
        let (engine, all) = (engine.clone(), vec![steps_of(world.id()); steps]);
        calls.push(tokio::spawn(async move { engine.execute_all(all).await }));
        settle().await;
        assert_eq!(batches(), expected, "{steps} more");
    }
    slow.obstacle.permits.add_permits(3);
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(batches(), 3);
}

#[tokio::test(start_paused = true)]
async fn many_creations_go_in_two_halves_beside_each_other() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine = Engine::new(Arc::clone(&slow) as _);
    let batches = || slow.obstacle.batches.load(Ordering::SeqCst);
    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let (engine, draft) = (engine.clone(), world.draft());
        calls.spawn(async move { engine.create_execution(draft).await });
    }
    settle().await;
    assert_eq!(batches(), 2, "neither half waits for the other");
    slow.obstacle.permits.add_permits(1);
    // Who was answered speaks again, and again goes as one half beside the other.
    for _ in 0..8 {
        calls.join_next().await.unwrap().unwrap().unwrap();
    }
    for number in 1..=8 {
        let (engine, draft) = (engine.clone(), world.draft());
        calls.spawn(async move { engine.create_execution(draft).await });
        settle().await;
        assert_eq!(batches(), if number < 8 { 2 } else { 3 }, "{number} of eight");
    }
    slow.obstacle.permits.add_permits(2);
    while let Some(call) = calls.join_next().await {
        call.unwrap().unwrap();
    }
    assert_eq!(batches(), 3);
}

/// One step of an execution.
fn steps_of(id: ExecutionId) -> RecordSteps {
    let fence = Fence { attempt_index: 0, lease_epoch: 1 };
    let name = StepName::new("count").unwrap();
    RecordSteps { id, fence, steps: vec![Step::run(0, name, Bytes::new())] }
}

#[tokio::test]
async fn an_idle_engine_sends_a_call_at_once() {
    let (engine, slow, world) = gated(&Options::default());
    slow.obstacle.permits.add_permits(3);
    for number in 1..=3 {
        engine.create_execution(world.draft()).await.unwrap();
        assert_eq!(slow.obstacle.batches.load(Ordering::SeqCst), number);
    }
}

#[tokio::test]
async fn one_refused_call_does_not_affect_the_others_of_its_batch() {
    let (engine, slow, world) = gated(&Options::default());
    slow.obstacle.permits.add_permits(1);
    let known = world.draft();
    let other = Create { priority: 7, ..known.clone() };
    let wrong = Create { priority: -1, ..world.draft() };
    let answers =
        engine.create_executions(vec![known.clone(), other, wrong, world.draft()]).await.unwrap();
    let codes: Vec<_> = answers.iter().map(|a| a.as_ref().err().map(|r| r.code)).collect();
    let conflict = Some(Code::ExecutionIdConflict);
    assert_eq!(codes, [None, conflict, Some(Code::InvalidInput), None]);
    assert_eq!(slow.obstacle.batches.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn too_many_waiting_calls_are_refused_as_overloaded_and_change_nothing() {
    let (engine, slow, world) = gated(&Options { queue_calls_max: 2, ..Options::default() });
    let mut calls = Vec::new();
    for _ in 0..10 {
        let (engine, draft) = (engine.clone(), world.draft());
        calls.push(tokio::spawn(async move { engine.create_execution(draft).await }));
        settle().await;
    }
    slow.obstacle.permits.add_permits(10);
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.unwrap());
    }
    let refused: Vec<&Error> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    assert!(refused.len() >= 6, "{} were refused", refused.len());
    assert!(refused.iter().all(|e| e.code() == Code::Overloaded && e.retryable()));
    let stored = (world.store.dump)().executions.len();
    assert_eq!(stored, answers.len() - refused.len());
}

#[tokio::test]
async fn too_many_waiting_bytes_are_refused_but_one_large_call_may_go_alone() {
    let (engine, slow, world) = gated(&Options { queue_bytes_max: 10_000, ..Options::default() });
    let large = || Create { input: vec![0; 20_000].into(), ..world.draft() };
    slow.obstacle.permits.add_permits(1);
    engine.create_execution(large()).await.unwrap();
    let first = tokio::spawn({
        let (engine, draft) = (engine.clone(), world.draft());
        async move { engine.create_execution(draft).await }
    });
    settle().await;
    let second = tokio::spawn({
        let (engine, draft) = (engine.clone(), large());
        async move { engine.create_execution(draft).await }
    });
    settle().await;
    let third = engine.create_execution(large()).await;
    assert_eq!(third.unwrap_err().code(), Code::Overloaded);
    slow.obstacle.permits.add_permits(2);
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
}

#[tokio::test]
async fn dropping_a_call_does_not_take_it_back() {
    let (engine, slow, world) = gated(&Options::default());
    let draft = world.draft();
    let id = draft.id;
    let call = tokio::spawn({
        let engine = engine.clone();
        async move { engine.create_execution(draft).await }
    });
    settle().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    slow.obstacle.permits.add_permits(1);
    settle().await;
    assert!(world.find(id).await.is_some());
}

#[tokio::test]
async fn renewals_and_operators_do_not_wait_behind_creations() {
    let (engine, slow, world) = gated(&Options::default());
    let id = world.create(world.draft()).await;
    let create = tokio::spawn({
        let (engine, draft) = (engine.clone(), world.draft());
        async move { engine.create_execution(draft).await }
    });
    settle().await;
    let hold = tokio::spawn({
        let engine = engine.clone();
        async move { engine.execute(Hold { id, reason: "now".to_owned(), version: None }).await }
    });
    settle().await;
    assert_eq!(slow.obstacle.batches.load(Ordering::SeqCst), 2, "each queue has its own flight");
    slow.obstacle.permits.add_permits(2);
    create.await.unwrap().unwrap();
    hold.await.unwrap().unwrap();
}

#[tokio::test]
async fn bad_input_is_refused_before_it_reaches_the_store() {
    let (engine, slow, world) = gated(&Options::default());
    let wrong = Create { priority: 9_001, ..world.draft() };
    let refused = engine.create_execution(wrong).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "invalid_input: priority \"9001\" is out of range; use 0 to 9000"
    );
    assert_eq!(slow.obstacle.batches.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_payload_limit_is_the_deployments() {
    let clock = Arc::new(ff_conformance::Dial::default());
    let config = ff_core::Config { payload_bytes_max: 10, ..ff_core::Config::default() };
    let dice = Box::new(ff_conformance::Dice::new(1));
    let engine = Engine::new(Arc::new(ff_conformance::Model::new(config, clock, dice)));
    let (_, world) = world();
    let draft = |bytes: usize| Create { input: vec![1; bytes].into(), ..world.draft() };
    engine.create_execution(draft(10)).await.unwrap();
    let refused = engine.create_execution(draft(11)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "payload_too_large: input_payload is 11 bytes long; at most 10 are allowed"
    );
}
