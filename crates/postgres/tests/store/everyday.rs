//! What is done most takes one statement that was made for it. Whatever a store does not know for
//! certain, or finds in other company, takes longer ways with the same result, so that nothing else
//! would show it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ff_conformance::cases::calls::completion;
use ff_core::{Backend, ClaimAsk};
use ff_engine::Engine;

use crate::cut::Remote;
use crate::line::Line;

/// A look is good for 100 ms: on a machine that is busy, the claim may come too late to rest on it.
const TRIES: usize = 20;

/// A store whose queue is registered, and that knows the key that it signs with: the first wait makes it,
/// and the second reads it.
async fn at_work() -> Remote {
    let remote = Remote::new().await;
    remote.world.waiting().await;
    remote.world.waiting().await;
    remote.line.ran();
    remote
}

/// The statements that wrote something. How a claim looks before depends on the time as well.
fn written(line: &Line) -> Vec<&'static str> {
    line.ran().into_iter().filter(|name| !name.starts_with("ready/")).collect()
}

#[tokio::test]
async fn everyday_work_takes_the_statements_made_for_it() {
    let remote = at_work().await;
    let (world, line) = (&remote.world, &remote.line);
    let ask = || ClaimAsk { fresh: true, ..world.ask(1) };
    let id = world.create(world.draft()).await;
    assert_eq!(written(line), ["hot/create"]);
    let work = world.claim(ask()).await.remove(0);
    assert_eq!(written(line), ["hot/first"]);
    world.run(completion(id, work.leased.fence, b"out")).await.unwrap();
    assert_eq!(written(line), ["hot/complete"]);
    let mut claimed = Vec::new();
    for _ in 0..TRIES {
        let (_, mailbox) = world.waiting().await;
        assert_eq!(written(line), ["hot/create", "hot/first", "hot/wait"]);
        world.deliver(mailbox.signal(world, "done")).await;
        assert_eq!(written(line), ["hot/wait"]);
        let work = world.claim(ask()).await.remove(0);
        claimed.push(line.ran());
        world.run(completion(mailbox.id, work.leased.fence, b"out")).await.unwrap();
        assert_eq!(written(line), ["hot/complete"]);
    }
    assert!(claimed.iter().any(|ran| *ran == ["hot/claim"]), "none from memory: {claimed:?}");
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
    let claim = || engine.claim_new(world.ask(1), Duration::ZERO);
    let (one, other) = tokio::join!(claim(), claim());
    let given = [one.unwrap(), other.unwrap()].concat();
    let ids: BTreeSet<_> = given.iter().map(|work| work.leased.execution.id).collect();
    assert_eq!(ids, [mailbox.id, elsewhere.id].into(), "one is known, and the other found");
}
