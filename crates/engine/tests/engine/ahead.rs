//! What a signal lets go is leased ahead for claims that keep coming, and given back if none comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ff_conformance::World;
use ff_conformance::faults::{Call, Obstacle, Obstructed};
use ff_conformance::world::waits::Mailbox;
use ff_conformance::world::worker;
use ff_core::backend::StoreError;
use ff_core::decide::claim::ClaimKind;
use ff_core::state::PublicState;
use ff_core::{ClaimAsk, Claimed};
use ff_engine::Engine;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::world;

/// Claims after which the next one is expected.
const LEARNT: usize = 16;

/// Counts claims that reach the store, and loses or holds up the answer of a batch when told to.
#[derive(Default)]
struct Line {
    claims: AtomicUsize,
    cut: AtomicBool,
    held_up: AtomicBool,
    go: Notify,
}

#[async_trait]
impl Obstacle for Line {
    async fn before(&self, call: Call) -> Result<(), StoreError> {
        if call == Call::Claim {
            self.claims.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    async fn after(&self, call: Call) -> Result<(), StoreError> {
        if call == Call::Apply && self.held_up.swap(false, Ordering::SeqCst) {
            self.go.notified().await;
        }
        if call == Call::Apply && self.cut.swap(false, Ordering::SeqCst) {
            return Err(StoreError::Transport { cause: "cut".to_owned() });
        }
        Ok(())
    }
}

async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

struct Scene {
    engine: Engine,
    world: World,
    line: Arc<Obstructed<Line>>,
    /// Executions that wait for a signal.
    mailboxes: Vec<Mailbox>,
}

impl Scene {
    /// Where claims came so often the moment after a signal, and `left` executions still wait.
    async fn after(claims: usize, left: usize) -> Self {
        let (_, world) = world();
        let backend = Arc::clone(&world.store.backend);
        let line = Arc::new(Obstructed::new(backend, Line::default()));
        let engine = Engine::new(Arc::clone(&line) as _);
        let mut mailboxes = Vec::new();
        for _ in 0..claims + left {
            mailboxes.push(world.waiting().await.1);
        }
        let mut scene = Self { engine, world, line, mailboxes };
        for _ in 0..claims {
            let id = scene.signal().await.id;
            assert_eq!(scene.claim().await[0].leased.execution.id, id);
        }
        scene
    }

    /// Ends one of the waits.
    async fn signal(&mut self) -> Mailbox {
        let mailbox = self.mailboxes.pop().unwrap();
        self.engine.deliver_signal(mailbox.signal(&self.world, "go")).await.unwrap();
        mailbox
    }

    async fn claim(&self) -> Vec<Claimed> {
        self.claim_as(self.world.ask(1)).await
    }

    async fn claim_as(&self, ask: ClaimAsk) -> Vec<Claimed> {
        self.engine.claim_new(ask, Duration::ZERO).await.unwrap()
    }

    fn claims(&self) -> usize {
        self.line.obstacle.claims.load(Ordering::SeqCst)
    }

    async fn state(&self, mailbox: &Mailbox) -> PublicState {
        self.world.state(mailbox.id).await
    }
}

#[tokio::test(start_paused = true)]
async fn claims_that_keep_coming_find_what_a_signal_let_go_leased_already() {
    let mut scene = Scene::after(LEARNT, 20).await;
    let asked = scene.claims();
    for _ in 0..20 {
        let mailbox = scene.signal().await;
        assert_eq!(scene.state(&mailbox).await, PublicState::Active, "leased with the signal");
        let claimed = scene.claim().await;
        let leased = &claimed[0].leased;
        assert_eq!((leased.execution.id, leased.kind), (mailbox.id, ClaimKind::Resumed));
        scene.world.complete(mailbox.id, leased.fence).await.unwrap();
    }
    assert_eq!(scene.claims(), asked, "no claim went to the store");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_leased_ahead_before_claims_have_come_often_enough() {
    let mut scene = Scene::after(LEARNT - 1, 1).await;
    let mailbox = scene.signal().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Waiting);
}

#[tokio::test(start_paused = true)]
async fn claims_that_come_late_teach_nothing() {
    let mut scene = Scene::after(LEARNT - 1, 2).await;
    scene.signal().await;
    tokio::time::advance(Duration::from_millis(6)).await;
    assert_eq!(scene.claim().await.len(), 1);
    let mailbox = scene.signal().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Waiting);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asks_for_is_given_back_without_counting() {
    let mut scene = Scene::after(LEARNT, 2).await;
    let mailbox = scene.signal().await;
    let before = scene.world.get(mailbox.id).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Waiting);
    let claimed = scene.claim_as(ClaimAsk { worker: worker("w2"), ..scene.world.ask(1) }).await;
    let leased = &claimed[0].leased;
    assert_eq!((leased.execution.id, leased.kind), (mailbox.id, ClaimKind::Resumed));
    assert_eq!(leased.execution.counts, before.counts);
    assert!(leased.fence.lease_epoch > before.epoch, "who might have held it cannot write");
    // Once wrong, nothing is expected until more claims have come than before.
    let mailbox = scene.signal().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Waiting);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_for_one_worker_goes_to_no_other() {
    let mut scene = Scene::after(LEARNT, 1).await;
    let mailbox = scene.signal().await;
    let own = scene.world.ask(1);
    let other_worker = ClaimAsk { worker: worker("w2"), ..scene.world.ask(1) };
    let other_lane = ClaimAsk { lanes: vec!["elsewhere".parse().unwrap()], ..own.clone() };
    let other_lease = ClaimAsk { lease_ttl_ms: own.lease_ttl_ms + 1, ..own.clone() };
    for other in [other_worker, other_lane, other_lease] {
        assert_eq!(scene.claim_as(other).await, []);
    }
    assert_eq!(scene.claim_as(own).await[0].leased.execution.id, mailbox.id);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_leased_ahead_of_what_waits_in_the_queue() {
    let mut scene = Scene::after(LEARNT, 2).await;
    let urgent = scene.engine.create_execution(scene.world.draft()).await.unwrap().execution_id();
    let mailbox = scene.signal().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Waiting);
    let ids: Vec<_> = scene.claim_as(scene.world.ask(2)).await;
    let ids: Vec<_> = ids.iter().map(|claimed| claimed.leased.execution.id).collect();
    assert!(ids.contains(&urgent) && ids.contains(&mailbox.id), "{ids:?}");
    // All is taken, so the next signal is leased ahead again.
    let mailbox = scene.signal().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Active);
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_lets_nothing_go_is_found_out() {
    let mut scene = Scene::after(LEARNT, 2).await;
    let mailbox = scene.signal().await;
    scene.claim().await;
    let ended = scene.engine.deliver_signal(mailbox.signal(&scene.world, "again")).await;
    assert!(ended.is_err(), "it waits no longer: {ended:?}");
    let mailbox = scene.signal().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Waiting, "claims have to come anew");
    assert_eq!(scene.claim().await[0].leased.execution.id, mailbox.id);
}

#[tokio::test(start_paused = true)]
async fn what_was_leased_ahead_by_a_batch_whose_answer_was_lost_is_given_back() {
    let mut scene = Scene::after(LEARNT, 1).await;
    scene.line.obstacle.cut.store(true, Ordering::SeqCst);
    let mailbox = scene.mailboxes.pop().unwrap();
    let signal = mailbox.signal(&scene.world, "go");
    assert!(scene.engine.deliver_signal(signal).await.is_err(), "the answer is lost");
    assert_eq!(scene.state(&mailbox).await, PublicState::Active);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Waiting);
    let claimed = scene.claim().await;
    assert_eq!(claimed[0].leased.execution.id, mailbox.id);
    // It is the claim's from here on, however often somebody looks for what was lost.
    tokio::time::sleep(Duration::from_secs(20)).await;
    scene.world.complete(mailbox.id, claimed[0].leased.fence).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_leased_ahead_is_found_again_under_the_claim_that_it_names() {
    let mut scene = Scene::after(LEARNT, 2).await;
    let (one, other) = (scene.mailboxes.pop().unwrap(), scene.mailboxes.pop().unwrap());
    let (one_signal, other_signal) =
        (one.signal(&scene.world, "go"), other.signal(&scene.world, "go"));
    let (first, second) = tokio::join!(
        scene.engine.deliver_signal(one_signal),
        scene.engine.deliver_signal(other_signal)
    );
    first.and(second).unwrap();
    let (mine, theirs) = (scene.claim().await, scene.claim().await);
    let claim_id = mine[0].leased.claim_id();
    assert_ne!(claim_id, theirs[0].leased.claim_id());
    let again = ClaimAsk { claim_id, ..scene.world.ask(2) };
    let again = scene.engine.claim(again, Duration::ZERO).await.unwrap();
    let ids: Vec<_> = again.iter().map(|claimed| claimed.leased.execution.id).collect();
    assert_eq!(ids, [mine[0].leased.execution.id]);
}

#[tokio::test(start_paused = true)]
async fn claims_that_idle_are_asked_before_anybody_is_expected() {
    let mut scene = Scene::after(LEARNT, 3).await;
    // It takes more than there is, so nobody else is expected.
    let (engine, ask) = (scene.engine.clone(), scene.world.ask(5));
    let idles = tokio::spawn(async move { engine.claim(ask, Duration::from_secs(20)).await });
    settle().await;
    let (asked, begun) = (scene.claims(), Instant::now());
    scene.signal().await;
    assert_eq!(idles.await.unwrap().unwrap().len(), 1);
    assert_eq!((scene.claims(), begun.elapsed()), (asked, Duration::ZERO));
    // What was learnt before is not forgotten for it.
    let mailbox = scene.signal().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Active);
    assert_eq!(scene.claim().await[0].leased.execution.id, mailbox.id);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_comes_while_its_guess_is_under_way_is_given_what_that_leased() {
    for exact in [false, true] {
        let mut scene = Scene::after(LEARNT, 1).await;
        let line = Arc::clone(&scene.line);
        line.obstacle.held_up.store(true, Ordering::SeqCst);
        let mailbox = scene.mailboxes.pop().unwrap();
        let (engine, signal) = (scene.engine.clone(), mailbox.signal(&scene.world, "go"));
        let told = tokio::spawn(async move { engine.deliver_signal(signal).await });
        settle().await;
        let (engine, ask) = (scene.engine.clone(), scene.world.ask(1));
        let claim = tokio::spawn(async move {
            let wait = Duration::from_secs(20);
            if exact { engine.claim(ask, wait).await } else { engine.claim_new(ask, wait).await }
        });
        settle().await;
        let begun = Instant::now();
        line.obstacle.go.notify_one();
        told.await.unwrap().unwrap();
        let claimed = claim.await.unwrap().unwrap();
        assert_eq!(claimed[0].leased.execution.id, mailbox.id);
        // Who may ask again under its own claim is given nothing under another.
        assert_eq!(begun.elapsed() > Duration::ZERO, exact);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_stops_gives_back_what_is_held_at_once() {
    let mut scene = Scene::after(LEARNT, 1).await;
    let mailbox = scene.signal().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Active);
    scene.engine.give_back_ahead().await;
    assert_eq!(scene.state(&mailbox).await, PublicState::Waiting);
}

#[tokio::test(start_paused = true)]
async fn a_claim_looks_once_more_before_it_leaves_if_a_batch_may_have_given_it_something() {
    let mut scene = Scene::after(0, 1).await;
    let (engine, ask) = (scene.engine.clone(), scene.world.ask(1));
    let idles = tokio::spawn(async move { engine.claim_new(ask, Duration::from_secs(1)).await });
    settle().await;
    scene.line.obstacle.cut.store(true, Ordering::SeqCst);
    let mailbox = scene.mailboxes.pop().unwrap();
    let signal = mailbox.signal(&scene.world, "go");
    assert!(scene.engine.deliver_signal(signal).await.is_err(), "the answer is lost");
    assert_eq!(scene.state(&mailbox).await, PublicState::Active, "leased to the claim");
    assert_eq!(idles.await.unwrap().unwrap()[0].leased.execution.id, mailbox.id);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_come_is_expected_ever_more_rarely() {
    let mut scene = Scene::after(LEARNT, 200).await;
    let mut in_vain = 0;
    for _ in 0..200 {
        let mailbox = scene.signal().await;
        if scene.state(&mailbox).await == PublicState::Active {
            in_vain += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(scene.claim().await.len(), 1);
    }
    assert_eq!(in_vain, 4, "each after twice as much trust as the one before");
}
