//! What is done most takes one statement that was made for it. Whatever a store does not know for
//! certain, or finds in other company, takes longer ways with the same result, so that nothing else
//! would show it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ff_conformance::cases::calls::completion;
use ff_conformance::cases::steps::step;
use ff_conformance::world::waits::single;
use ff_core::condition::ResumeCondition;
use ff_core::decide::suspend::Suspend;
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::suspension::Effect;
use ff_core::{Backend, ExecutionId};
use ff_engine::Engine;
use serde_json::json;

use crate::cut::Remote;
use crate::line::Line;
use crate::server::connect;

/// What a claim scans with.
const SCANS: [&str; 3] = ["ready/", "lease/serving", "lease/by_claim"];

/// A store whose queue is registered, and that knows the key that it signs with: the first wait makes it,
/// and the second reads it.
async fn at_work() -> Remote {
    let remote = Remote::new().await;
    remote.world.waiting().await;
    remote.world.waiting().await;
    remote.line.ran();
    remote
}

/// The statements that wrote something, and none that a claim scans with.
fn written(line: &Line) -> Vec<&'static str> {
    line.ran().into_iter().filter(|name| !SCANS.iter().any(|of| name.starts_with(of))).collect()
}

#[tokio::test]
async fn everyday_work_takes_the_statements_made_for_it() {
    let remote = at_work().await;
    let (world, line) = (&remote.world, &remote.line);
    let id = world.create(world.draft()).await;
    assert_eq!(written(line), ["hot/create"]);
    let work = world.claim(world.ask(1)).await.remove(0);
    assert_eq!(written(line), ["hot/claim"]);
    world.run(completion(id, work.leased.fence, b"out")).await.unwrap();
    assert_eq!(written(line), ["hot/complete"]);
    for _ in 0..3 {
        let (_, mailbox) = world.waiting().await;
        assert_eq!(written(line), ["hot/create", "hot/claim", "hot/wait"]);
        world.deliver(mailbox.signal(world, "done")).await;
        assert_eq!(written(line), ["hot/wait"]);
        let work = world.claim(world.ask(1)).await.remove(0);
        assert_eq!(written(line), ["hot/claim"]);
        world.run(completion(mailbox.id, work.leased.fence, b"out")).await.unwrap();
        assert_eq!(written(line), ["hot/complete"]);
    }
}

#[tokio::test]
async fn a_wait_among_others_takes_the_statements_made_for_it() {
    let remote = at_work().await;
    let (world, line) = (&remote.world, &remote.line);
    let (id, mut fence) = world.running(json!({})).await;
    line.ran();
    for number in 0..3 {
        let deadline = Some(world.now().plus(60_000));
        let steps = vec![step(number, "asked")];
        let wait = Suspend { deadline, steps, ..world.pause(id, fence) };
        let mailbox = world.suspend(wait).await.remove(0);
        assert_eq!(written(line), ["hot/wait"], "wait {number}");
        world.deliver(mailbox.signal(world, "done")).await;
        assert_eq!(written(line), ["hot/wait"], "wait {number}");
        fence = world.take(id).await.leased.fence;
        line.ran();
    }
    // One that is not the last that was missing leaves it suspended.
    let condition = ResumeCondition::AllOf(vec![single("a", None), single("b", None)]);
    let waitpoints = vec![world.fresh("a"), world.fresh("b")];
    let wait = Suspend { condition, waitpoints, ..world.pause(id, fence) };
    let mailboxes = world.suspend(wait).await;
    assert_eq!(written(line), ["hot/wait"]);
    world.deliver(mailboxes[0].signal(world, "done")).await;
    assert_eq!(written(line), ["hot/wait"]);
    world.deliver(mailboxes[1].signal(world, "done")).await;
    assert_eq!(written(line), ["hot/wait"]);
}

#[tokio::test]
async fn what_rests_on_a_wrong_memory_changes_nothing_and_takes_no_number() {
    let remote = at_work().await;
    let (world, line) = (&remote.world, &remote.line);
    let stranger = remote.stranger().await;
    let db = connect().await;
    let sequence = format!("select last_value from {}.ff_event_seq_seq", remote.schema.name);
    let newest = async || db.query_one(&sequence, &[]).await.unwrap().get::<_, i64>(0);
    // Behind the back of the store that holds it.
    let elsewhere = async |id: ExecutionId| {
        let tag = (format!("at.n{}", newest().await), "x".to_owned());
        let edit = Edit { set: [tag].into(), ..Edit::default() };
        let changed = stranger.apply(vec![SetTags { id, edit }.into()]).await;
        assert!(changed.unwrap().remove(0).is_ok());
        line.ran();
        newest().await
    };
    let (id, fence) = world.running(json!({})).await;
    let before = elsewhere(id).await;
    world.suspend(world.pause(id, fence)).await;
    assert_eq!(line.ran().first(), Some(&"hot/wait"));
    assert_eq!(newest().await, before + 1);
    let (_, mailbox) = world.waiting().await;
    let before = elsewhere(mailbox.id).await;
    assert_eq!(world.deliver(mailbox.signal(world, "done")).await, Effect::ConditionSatisfied);
    assert_eq!(line.ran().first(), Some(&"hot/wait"));
    assert_eq!(newest().await, before + 1);
    let fence = world.take(mailbox.id).await.leased.fence;
    let before = elsewhere(mailbox.id).await;
    world.run(completion(mailbox.id, fence, b"out")).await.unwrap();
    assert_eq!(line.ran().first(), Some(&"hot/complete"));
    assert_eq!(newest().await, before + 1);
}

#[tokio::test]
async fn a_claim_that_others_leave_nothing_for_looks_everywhere() {
    let remote = at_work().await;
    let world = &remote.world;
    let engine = Engine::new(Arc::clone(&world.store.backend));
    let stranger = remote.stranger().await;
    // It stands before the places where claims begin to look.
    let elsewhere = world.draft();
    let (_, mailbox) = world.waiting().await;
    let created = stranger.apply(vec![elsewhere.clone().into()]).await.unwrap().remove(0);
    assert!(created.is_ok(), "{created:?}");
    world.deliver(mailbox.signal(world, "done")).await;
    let claim = || engine.claim(world.ask(1), Duration::ZERO);
    let (one, other) = tokio::join!(claim(), claim());
    let given = [one.unwrap(), other.unwrap()].concat();
    let ids: BTreeSet<_> = given.iter().map(|work| work.leased.execution.id).collect();
    assert_eq!(ids, [mailbox.id, elsewhere.id].into(), "one is known, and the other found");
}
