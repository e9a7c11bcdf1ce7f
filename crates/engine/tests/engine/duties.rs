//! Duties by hand and in their loops.

use std::sync::Arc;
use std::time::Duration;

use ff_conformance::World;
use ff_conformance::faults::{Fault, Obstructed, Strike};
use ff_core::backend::{Duty, WorkFilter};
use ff_core::decide::create::Create;
use ff_core::state::PublicState;
use ff_engine::{DutyPlan, Engine};
use serde_json::json;

use crate::world;

/// Waits until the duties have done something, on paused time.
async fn until(world: &World, id: ff_core::ExecutionId, state: PublicState) {
    for _ in 0..1_000 {
        if world.find(id).await.is_some() && world.state(id).await == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{id} did not become {state}");
}

#[test]
fn every_duty_has_one_plan_and_promotion_another() {
    for duty in Duty::ALL {
        assert_eq!(DutyPlan::of(*duty).duty, Some(*duty));
    }
    assert_eq!(DutyPlan::ALL.len(), Duty::ALL.len() + 1);
    let names: Vec<_> = DutyPlan::ALL.iter().map(DutyPlan::name).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len(), "{names:?}");
}

#[tokio::test]
async fn a_tick_reports_what_it_did_and_what_comes_next() {
    let (engine, world) = world();
    for _ in 0..3 {
        world.running(json!({})).await;
    }
    let filter = WorkFilter::default();
    let early = engine.scan_tick(Duty::LeaseExpiry, &filter).await.unwrap();
    assert_eq!((early.processed, early.next), (0, Some(world.now().plus(30_000))));
    world.pass(30_000);
    let report = engine.scan_tick(Duty::LeaseExpiry, &filter).await.unwrap();
    assert_eq!((report.processed, report.skipped, report.errors), (3, 0, 0));
    assert!(!report.more);
}

#[tokio::test]
async fn a_tick_is_bounded_and_says_that_there_is_more() {
    let (_, world) = world();
    for _ in 0..7 {
        world.running(json!({})).await;
    }
    world.pass(30_000);
    let mut plan = DutyPlan::of(Duty::LeaseExpiry);
    plan.batch = 5;
    let backend = world.store.backend.as_ref();
    let report = plan.tick(backend, &WorkFilter::default()).await.unwrap();
    assert_eq!((report.processed, report.more), (5, true));
    let report = plan.tick(backend, &WorkFilter::default()).await.unwrap();
    assert_eq!((report.processed, report.more), (2, false));
}

#[tokio::test]
async fn a_renewed_lease_is_filed_for_later() {
    let (engine, world) = world();
    let (id, fence) = world.running(json!({})).await;
    world.pass(20_000);
    world.renew(id, fence).await.unwrap();
    world.pass(10_000);
    let report = engine.scan_tick(Duty::LeaseExpiry, &WorkFilter::default()).await.unwrap();
    assert_eq!((report.processed, report.refiled, report.skipped), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_loops_keep_everything_moving() {
    let (engine, world) = world();
    let duties = engine.start_duties(&WorkFilter::default());
    let (lost, _) = world.running(json!({})).await;
    let policy = json!({"timeout_policy": {"execution_deadline_ms": 500}, "retention_ms": 0});
    let late = world.create_with(policy).await;
    world.pass(30_000);
    until(&world, lost, PublicState::Waiting).await;
    until_gone(&world, late).await;
    duties.stop().await;
}

async fn until_gone(world: &World, id: ff_core::ExecutionId) {
    for _ in 0..1_000 {
        if world.find(id).await.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{id} is still there");
}

#[tokio::test(start_paused = true)]
async fn a_loop_survives_a_failing_store() {
    let (_, world) = world();
    for call in 0..12 {
        let backend = Arc::clone(&world.store.backend);
        let faulty = Arc::new(Obstructed::new(backend, Fault::new(Strike::Before, call)));
        let engine = Engine::new(Arc::clone(&faulty) as _);
        let duties = engine.start_duties(&WorkFilter::default());
        let (lost, _) = world.running(json!({})).await;
        world.pass(30_000);
        until(&world, lost, PublicState::Waiting).await;
        while !faulty.obstacle.struck() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        world.cancel(lost).await.unwrap();
        let (again, _) = world.running(json!({})).await;
        world.pass(30_000);
        until(&world, again, PublicState::Waiting).await;
        duties.stop().await;
        world.cancel(again).await.unwrap();
    }
}

#[tokio::test]
async fn promotion_moves_what_is_due_and_tells_when_to_come_back() {
    let (engine, world) = world();
    let at = |ms| Some(world.now().plus(ms));
    let soon = world.create(Create { delay_until: at(100), ..world.draft() }).await;
    world.create(Create { delay_until: at(900), ..world.draft() }).await;
    let later = at(900);
    world.pass(100);
    let report = engine.promote_delayed().await.unwrap();
    assert_eq!(report.next, later);
    let ready: Vec<_> = (world.store.dump)().ready.into_iter().map(|r| r.execution).collect();
    assert_eq!(ready, [soon]);
}
