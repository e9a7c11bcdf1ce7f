//! Creations that go to a claim of the same process in the commit that creates them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ff_conformance::World;
use ff_conformance::faults::{Call, Obstacle, Obstructed};
use ff_conformance::world::lane;
use ff_core::backend::{Interest, StoreError};
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::create::Create;
use ff_core::decide::fail::Fail;
use ff_core::policy::FailureClass;
use ff_core::state::PublicState;
use ff_core::{ClaimAsk, Claimed, ExecutionId};
use ff_engine::{Engine, Error};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::slow::slow;
use crate::world;

/// Real time that is far longer than any wake-up takes.
const LONG: Duration = Duration::from_secs(20);

/// A claim that has looked, found nothing, and idles.
async fn idling(engine: &Engine, ask: ClaimAsk) -> JoinHandle<Result<Vec<Claimed>, Error>> {
    let engine = engine.clone();
    let claim = tokio::spawn(async move { engine.claim(ask, LONG).await });
    settle().await;
    claim
}

async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

async fn given(claim: JoinHandle<Result<Vec<Claimed>, Error>>) -> Vec<Claimed> {
    claim.await.unwrap().unwrap()
}

#[tokio::test]
async fn what_is_created_while_a_claim_idles_goes_to_it_and_stands_in_no_queue() {
    let (engine, world) = world();
    let claim = idling(&engine, world.ask(1)).await;
    let before = world.store.backend.generation(Interest::Work);
    let create = Create { input: Bytes::from_static(b"in"), ..world.draft() };
    let id = engine.create_execution(create).await.unwrap().execution_id();
    let claimed = given(claim).await;
    assert_eq!(claimed[0].leased.execution.id, id);
    assert_eq!(claimed[0].input.as_ref().unwrap().bytes, Bytes::from_static(b"in"));
    assert_eq!(world.get(id).await.version, 2, "created and leased in one write");
    let after = world.store.backend.generation(Interest::Work);
    assert_eq!(before, after, "nobody is woken for it");
    world.complete(id, claimed[0].leased.fence).await.unwrap();
}

#[tokio::test]
async fn a_claim_is_given_what_suits_it_and_no_more_than_it_asked_for() {
    let (engine, world) = world();
    let other = Create { lane: lane("elsewhere"), ..world.draft() };
    let policy = json!({"routing_requirements": {"required_capabilities": ["gpu"]}});
    let demanding = Create { policy: serde_json::from_value(policy).unwrap(), ..world.draft() };
    let later = Create { delay_ms: Some(60_000), ..world.draft() };
    let claim = idling(&engine, world.ask(2)).await;
    let drafts = vec![other, demanding, later, world.draft(), world.draft(), world.draft()];
    let created = engine.create_executions(drafts).await.unwrap();
    let ids: Vec<_> = created.into_iter().map(|one| one.unwrap().execution_id()).collect();
    let claimed: Vec<_> = given(claim).await.iter().map(|one| one.leased.execution.id).collect();
    assert_eq!(claimed, ids[3..5]);
    for waiting in [ids[0], ids[1], ids[5]] {
        assert_eq!(world.state(waiting).await, PublicState::Waiting);
    }
    assert_eq!(world.state(ids[2]).await, PublicState::Delayed);
}

/// The caller of the first may be gone without anybody noticing.
#[tokio::test]
async fn of_claims_under_one_id_the_last_is_given_what_is_created() {
    let (engine, world) = world();
    let ask = world.ask(1);
    let first = idling(&engine, ask.clone()).await;
    let repeat = idling(&engine, ask).await;
    let id = engine.create_execution(world.draft()).await.unwrap().execution_id();
    assert_eq!(given(repeat).await[0].leased.execution.id, id);
    first.abort();
}

#[tokio::test]
async fn claims_that_idle_share_what_is_created_together() {
    let (engine, world) = world();
    let claims = [idling(&engine, world.ask(2)).await, idling(&engine, world.ask(2)).await];
    let drafts = (0..3).map(|_| world.draft()).collect();
    let created = engine.create_executions(drafts).await.unwrap();
    let mut counts = Vec::new();
    for claim in claims {
        counts.push(given(claim).await.len());
    }
    assert_eq!((created.len(), counts), (3, vec![2, 1]));
}

#[tokio::test]
async fn what_nobody_takes_any_more_is_given_back() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine = Engine::new(Arc::clone(&slow) as _);
    slow.obstacle.permits.add_permits(1);
    let claim = idling(&engine, world.ask(1)).await;
    let create = world.draft();
    let id = create.id;
    let created = tokio::spawn({
        let engine = engine.clone();
        async move { engine.create_execution(create).await }
    });
    settle().await;
    claim.abort();
    assert!(claim.await.unwrap_err().is_cancelled());
    // One for the creation, one for the release that follows.
    slow.obstacle.permits.add_permits(2);
    created.await.unwrap().unwrap();
    settle().await;
    assert_eq!(world.state(id).await, PublicState::Waiting);
    assert_eq!(world.get(id).await.counts.attempts, 0);
}

#[tokio::test]
async fn a_refused_creation_leaves_the_claim_waiting_for_the_next() {
    let (engine, world) = world();
    let create = world.draft();
    let id = world.create(create.clone()).await;
    let first = world.take(id).await;
    let claim = idling(&engine, world.ask(1)).await;
    // It is under way already, so there is nothing to start.
    engine.create_execution(create).await.unwrap();
    settle().await;
    assert!(!claim.is_finished());
    let next = engine.create_execution(world.draft()).await.unwrap().execution_id();
    assert_eq!(given(claim).await[0].leased.execution.id, next);
    world.complete(id, first.leased.fence).await.unwrap();
}

#[tokio::test]
async fn asked_again_under_its_id_a_claim_finds_what_it_was_started_with() {
    let (engine, world) = world();
    let ask = world.ask(1);
    let claim = idling(&engine, ask.clone()).await;
    engine.create_execution(world.draft()).await.unwrap();
    let first = given(claim).await;
    let again = engine.claim(ask, Duration::ZERO).await.unwrap();
    assert_eq!(first, again);
}

#[tokio::test]
async fn every_claim_scans_the_store_before_it_waits() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    slow.obstacle.permits.add_permits(1_000);
    let engine = Engine::new(Arc::clone(&slow) as _);
    let scans = || slow.obstacle.claims.load(Ordering::SeqCst);
    for number in 1..=3 {
        let claim = idling(&engine, world.ask(1)).await;
        assert_eq!(scans(), number);
        engine.create_execution(world.draft()).await.unwrap();
        assert_eq!(given(claim).await.len(), 1);
    }
}

#[tokio::test]
async fn whoever_waits_for_an_end_is_told_by_the_commit_that_brings_it() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    slow.obstacle.permits.add_permits(1_000);
    let engine = Engine::new(Arc::clone(&slow) as _);
    let reads = || slow.obstacle.reads.load(Ordering::SeqCst);
    for how in [PublicState::Completed, PublicState::Failed, PublicState::Cancelled] {
        let (id, fence) = world.running(json!({})).await;
        let waits: Vec<_> = (0..2)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move { engine.await_execution(id, LONG).await })
            })
            .collect();
        settle().await;
        let looked = reads();
        match how {
            PublicState::Completed => engine.complete_execution(id, fence, None).await.unwrap(),
            PublicState::Failed => {
                let (reason, category) = ("broken".to_owned(), "oops".parse().unwrap());
                let class = FailureClass::Permanent;
                let fail = Fail { id, fence, reason, category, class };
                engine.fail_execution(fail).await.unwrap();
            }
            _ => engine.cancel_execution(id, "no longer wanted").await.unwrap(),
        }
        for wait in waits {
            assert_eq!(wait.await.unwrap().unwrap(), how);
        }
        assert_eq!(reads(), looked, "nobody looked again");
        assert_eq!(world.state(id).await, how);
    }
}

/// Keeps the answers of batches back, after they took effect.
struct Late(tokio::sync::Semaphore);

#[async_trait::async_trait]
impl Obstacle for Late {
    async fn before(&self, _: Call) -> Result<(), StoreError> {
        Ok(())
    }

    async fn after(&self, call: Call) -> Result<(), StoreError> {
        if call == Call::Apply {
            self.0.acquire().await.unwrap().forget();
        }
        Ok(())
    }
}

#[tokio::test]
async fn what_a_signal_lets_go_goes_to_a_claim_that_idles() {
    let (engine, world) = world();
    let (_, mailbox) = world.waiting().await;
    let claim = idling(&engine, world.ask(1)).await;
    let before = world.store.backend.generation(Interest::Work);
    engine.deliver_signal(mailbox.signal(&world, "go")).await.unwrap();
    let claimed = given(claim).await;
    assert_eq!(claimed[0].leased.execution.id, mailbox.id);
    assert_eq!(claimed[0].leased.kind, ClaimKind::Resumed);
    let after = world.store.backend.generation(Interest::Work);
    assert_eq!(before, after, "it never stood in a queue");
    world.complete(mailbox.id, claimed[0].leased.fence).await.unwrap();
}

#[tokio::test]
async fn signals_in_two_batches_each_find_a_claim_that_idles() {
    let (_, world) = world();
    let backend = Arc::clone(&world.store.backend);
    let late = Arc::new(Obstructed::new(backend, Late(tokio::sync::Semaphore::new(0))));
    let engine = Engine::new(Arc::clone(&late) as _);
    let mut mailboxes = Vec::new();
    for _ in 0..8 {
        mailboxes.push(world.waiting().await.1);
    }
    // Who asks for something else, and has waited longest, takes nobody's place.
    let elsewhere = ClaimAsk { lanes: vec!["elsewhere".parse().unwrap()], ..world.ask(1) };
    let elsewhere = idling(&engine, elsewhere).await;
    let mut claims = Vec::new();
    for _ in 0..8 {
        claims.push(idling(&engine, world.ask(1)).await);
    }
    let before = world.store.backend.generation(Interest::Work);
    for mailbox in &mailboxes {
        let (engine, signal) = (engine.clone(), mailbox.signal(&world, "go"));
        tokio::spawn(async move { engine.deliver_signal(signal).await });
    }
    settle().await;
    for mailbox in &mailboxes {
        let state = world.state(mailbox.id).await;
        assert_eq!(state, PublicState::Active, "both are written before either is answered");
    }
    late.obstacle.0.add_permits(10);
    for claim in claims {
        assert_eq!(given(claim).await.len(), 1);
    }
    let after = world.store.backend.generation(Interest::Work);
    assert_eq!(before, after, "none ever stood in a queue");
    assert!(!elsewhere.is_finished());
}

#[tokio::test]
async fn a_claim_that_looks_again_waits_for_what_a_batch_may_have_started_for_it() {
    let (_, world) = world();
    let backend = Arc::clone(&world.store.backend);
    let late = Arc::new(Obstructed::new(backend, Late(tokio::sync::Semaphore::new(0))));
    let engine = Engine::new(Arc::clone(&late) as _);
    let (_, mailbox) = world.waiting().await;
    let claim = idling(&engine, world.ask(1)).await;
    let signal = mailbox.signal(&world, "go");
    let delivered = tokio::spawn({
        let engine = engine.clone();
        async move { engine.deliver_signal(signal).await }
    });
    settle().await;
    assert_eq!(world.state(mailbox.id).await, PublicState::Active, "it was started");
    // Something else is ready: the claim is woken before the batch has answered.
    world.create(world.draft()).await;
    settle().await;
    late.obstacle.0.add_permits(10);
    delivered.await.unwrap().unwrap();
    let claimed = given(claim).await;
    settle().await;
    assert_eq!(claimed[0].leased.execution.id, mailbox.id);
    let held = world.complete(mailbox.id, claimed[0].leased.fence).await;
    assert!(held.is_ok(), "it was taken away from who runs it: {held:?}");
}

/// Holds batches up before they take effect.
struct Early(tokio::sync::Semaphore);

#[async_trait::async_trait]
impl Obstacle for Early {
    async fn before(&self, call: Call) -> Result<(), StoreError> {
        if call == Call::Apply {
            self.0.acquire().await.unwrap().forget();
        }
        Ok(())
    }

    async fn after(&self, _: Call) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A claim that idles, and a signal whose batch is held up and may lease what it releases for it.
struct HeldUp {
    world: World,
    early: Arc<Obstructed<Early>>,
    claim: JoinHandle<Result<Vec<Claimed>, Error>>,
    signalled: ExecutionId,
}

impl HeldUp {
    async fn new() -> Self {
        let (_, world) = world();
        let backend = Arc::clone(&world.store.backend);
        let early = Arc::new(Obstructed::new(backend, Early(tokio::sync::Semaphore::new(0))));
        let engine = Engine::new(Arc::clone(&early) as _);
        let (_, mailbox) = world.waiting().await;
        let claim = idling(&engine, world.ask(1)).await;
        let signal = mailbox.signal(&world, "go");
        tokio::spawn(async move { engine.deliver_signal(signal).await });
        settle().await;
        Self { world, early, claim, signalled: mailbox.id }
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_does_not_wait_for_a_batch_that_is_held_up() {
    let HeldUp { world, early, claim, signalled } = HeldUp::new().await;
    let begun = tokio::time::Instant::now();
    let id = world.create(world.draft()).await;
    assert_eq!(given(claim).await[0].leased.execution.id, id);
    assert!(begun.elapsed() <= Duration::from_millis(100), "{:?}", begun.elapsed());
    // What the batch leases for it later is given back, and is nobody's reclaim.
    early.obstacle.0.add_permits(10);
    settle().await;
    assert_eq!(world.state(signalled).await, PublicState::Waiting);
    assert_eq!(world.get(signalled).await.counts.reclaims, 0);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_scanned_meanwhile_is_given_what_a_late_batch_leased_for_it() {
    let HeldUp { world, early, claim, signalled } = HeldUp::new().await;
    // It is woken for what it cannot take, and scans while the batch is held up.
    world.create(Create { lane: lane("elsewhere"), ..world.draft() }).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!claim.is_finished());
    early.obstacle.0.add_permits(10);
    let claimed = given(claim).await;
    assert_eq!(claimed[0].leased.execution.id, signalled);
    settle().await;
    world.complete(signalled, claimed[0].leased.fence).await.unwrap();
}

/// Loses the answer of the next batch, after it took effect.
#[derive(Default)]
struct Cut(AtomicBool);

#[async_trait::async_trait]
impl Obstacle for Cut {
    async fn before(&self, _: Call) -> Result<(), StoreError> {
        Ok(())
    }

    async fn after(&self, call: Call) -> Result<(), StoreError> {
        if call == Call::Apply && self.0.swap(false, Ordering::SeqCst) {
            return Err(StoreError::Transport { cause: "cut".to_owned() });
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_scans_once_more_before_it_leaves_if_a_lost_batch_may_have_leased_for_it() {
    let (_, world) = world();
    let backend = Arc::clone(&world.store.backend);
    let cut = Arc::new(Obstructed::new(backend, Cut::default()));
    let engine = Engine::new(Arc::clone(&cut) as _);
    let (_, mailbox) = world.waiting().await;
    let claim = idling(&engine, world.ask(1)).await;
    cut.obstacle.0.store(true, Ordering::SeqCst);
    let signal = mailbox.signal(&world, "go");
    assert!(engine.deliver_signal(signal).await.is_err(), "the answer is lost");
    assert_eq!(world.state(mailbox.id).await, PublicState::Active, "leased to the claim");
    assert_eq!(given(claim).await[0].leased.execution.id, mailbox.id);
}
