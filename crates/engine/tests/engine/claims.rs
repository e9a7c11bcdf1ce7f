//! Claims that wait, wake up, and are given back when nobody wants them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ff_conformance::world::lane;
use ff_core::decide::create::Create;
use ff_core::state::PublicState;
use ff_core::{ClaimAsk, Code};
use ff_engine::Engine;

use crate::slow::slow;
use crate::world;

/// Real time that is far longer than any wake-up takes.
const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_waiting_claim_wakes_when_work_is_created() {
    let (engine, world) = world();
    let waiting = tokio::spawn({
        let (engine, ask) = (engine.clone(), world.ask(1));
        async move { engine.claim(ask, LONG).await }
    });
    tokio::task::yield_now().await;
    let begun = std::time::Instant::now();
    let id = world.create(world.draft()).await;
    let claimed = waiting.await.unwrap().unwrap();
    assert_eq!(claimed[0].leased.execution.id, id);
    assert!(begun.elapsed() < LONG / 4, "it was woken, not timed out");
}

#[tokio::test]
async fn a_claim_that_waits_in_vain_answers_with_nothing() {
    let (engine, world) = world();
    let none = engine.claim(world.ask(1), Duration::from_millis(20)).await.unwrap();
    assert!(none.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_claim_looks_again_when_a_delay_is_over() {
    let (engine, world) = world();
    let delay_until = Some(world.now().plus(1_500));
    let id = world.create(Create { delay_until, ..world.draft() }).await;
    let clock = Arc::clone(&world.clock);
    let begun = tokio::time::Instant::now();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        clock.advance(1_500);
    });
    // The store's clock and the timer move together; it must not take the 5 s of a blind poll.
    let claimed = engine.claim(world.ask(1), LONG).await.unwrap();
    assert_eq!(claimed[0].leased.execution.id, id);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_idle_wait_does_not_poll_busily() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    slow.obstacle.permits.add_permits(1_000);
    let engine = Engine::new(Arc::clone(&slow) as _);
    let none = engine.claim(world.ask(1), Duration::from_mins(1)).await.unwrap();
    assert!(none.is_empty());
    let looked = slow.obstacle.claims.load(Ordering::SeqCst);
    assert!(looked <= 15, "{looked} looks in a minute");
}

#[tokio::test]
async fn claims_made_together_are_served_together_and_differ() {
    let (_, world) = world();
    for _ in 0..20 {
        world.create(world.draft()).await;
    }
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine = Engine::new(Arc::clone(&slow) as _);
    let asks: Vec<_> = (0..10)
        .map(|_| {
            let (engine, ask) = (engine.clone(), world.ask(2));
            tokio::spawn(async move { engine.claim(ask, Duration::ZERO).await })
        })
        .collect();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    slow.obstacle.permits.add_permits(10);
    let mut ids = std::collections::BTreeSet::new();
    for ask in asks {
        ids.extend(ask.await.unwrap().unwrap().iter().map(|c| c.leased.execution.id));
    }
    assert_eq!(ids.len(), 20);
    assert!(slow.obstacle.claims.load(Ordering::SeqCst) <= 2);
}

#[tokio::test]
async fn a_claim_whose_caller_has_gone_is_released_without_counting() {
    let (_, world) = world();
    let id = world.create(world.draft()).await;
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine = Engine::new(Arc::clone(&slow) as _);
    let claim = tokio::spawn({
        let (engine, ask) = (engine.clone(), world.ask(1));
        async move { engine.claim(ask, LONG).await }
    });
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    claim.abort();
    assert!(claim.await.unwrap_err().is_cancelled());
    // One for the claim that is under way, one for the release that follows.
    slow.obstacle.permits.add_permits(2);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.state(id).await, PublicState::Waiting);
    let x = world.get(id).await;
    assert_eq!((x.counts.attempts, x.version), (0, 3), "claimed, and given back");
}

#[tokio::test]
async fn a_claim_dropped_after_it_was_answered_is_given_back_as_well() {
    let (engine, world) = world();
    let id = world.create(world.draft()).await;
    let mut claim = Box::pin(engine.claim(world.ask(1), LONG));
    // Sent, answered, and never looked at again.
    assert!(poll_once(&mut claim).await.is_pending());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.state(id).await, PublicState::Active);
    drop(claim);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.state(id).await, PublicState::Waiting);
    assert_eq!(world.get(id).await.counts.attempts, 0);
}

/// Polls once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> std::task::Poll<F::Output> {
    std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx)))
        .await
}

#[tokio::test]
async fn waiting_for_ever_is_allowed() {
    let (engine, world) = world();
    let id = world.create(world.draft()).await;
    let claimed = engine.claim(world.ask(1), Duration::MAX).await.unwrap();
    assert_eq!(claimed[0].leased.execution.id, id);
}

#[tokio::test]
async fn an_ask_that_makes_no_sense_is_refused() {
    let (engine, world) = world();
    let mut ask = world.ask(1);
    ask.lanes.clear();
    let refused = engine.claim(ask, Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidInput);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_beside_others_that_are_served_keeps_its_deadline() {
    let (engine, world) = world();
    let world = Arc::new(world);
    // Whoever asks beside it is given something every time.
    let busy: Vec<_> = (0..8)
        .map(|_| {
            let (engine, world) = (engine.clone(), Arc::clone(&world));
            tokio::spawn(async move {
                loop {
                    world.create(world.draft()).await;
                    engine.claim(world.ask(1), Duration::ZERO).await.unwrap();
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let ask = ClaimAsk { lanes: vec![lane("empty")], ..world.ask(1) };
        let claim = engine.claim(ask, Duration::ZERO);
        let claimed = tokio::time::timeout(Duration::from_secs(5), claim).await;
        assert!(claimed.expect("it ends in time").unwrap().is_empty());
    }
    busy.iter().for_each(tokio::task::JoinHandle::abort);
}
