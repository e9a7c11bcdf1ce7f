//! Delayed work becomes claimable when its time comes, by itself.

use std::sync::Arc;

use ff_core::backend::Interest;
use ff_core::decide::create::Create;
use ff_core::limits::PROMOTE_BATCH_MAX;
use ff_core::state::PublicState;
use ff_core::{ClaimAsk, ExecutionId};

use super::calls::{ids_of, retrying};
use crate::world::{World, lane};

async fn delayed(w: &World, ms: u64) -> ExecutionId {
    let delay_until = Some(w.now().plus(ms));
    w.create(Create { delay_until, ..w.draft() }).await
}

/// Not a millisecond early, and not late.
pub async fn delayed_work_is_claimable_from_its_time_on(w: Arc<World>) {
    let id = delayed(&w, 1_000).await;
    w.pass(999);
    assert!(w.claim_one().await.is_none());
    assert_eq!(w.state(id).await, PublicState::Delayed);
    w.pass(1);
    assert_eq!(w.state(id).await, PublicState::Waiting);
    w.take(id).await;
}

/// A worker that finds nothing knows when to ask again.
pub async fn a_claim_tells_when_the_next_delay_ends(w: Arc<World>) {
    assert_eq!(w.promote().await, None);
    let start = w.now();
    delayed(&w, 2_000).await;
    delayed(&w, 1_000).await;
    let claims = w.store.backend.claim(&[w.ask(1)]).await;
    let claims = claims.expect("the store works");
    assert!(claims.given.iter().all(Vec::is_empty));
    assert_eq!((claims.next_due, claims.now), (Some(start.plus(1_000)), start));
    w.pass(1_000);
    assert_eq!(w.promote().await, Some(start.plus(2_000)));
    w.pass(1_000);
    assert_eq!(w.promote().await, None);
}

/// Asking for nothing moves what is due and hands out nothing.
pub async fn a_claim_without_asks_only_promotes(w: Arc<World>) {
    let id = delayed(&w, 1_000).await;
    let before = w.get(id).await;
    w.pass(1_000);
    assert!((w.store.dump)().ready.is_empty());
    w.promote().await;
    assert_eq!((w.store.dump)().ready.len(), 1);
    w.promote().await;
    assert_eq!((w.store.dump)().ready.len(), 1);
    assert_eq!(w.get(id).await, before);
    assert!(w.event_names(id).await.is_empty());
}

/// A delayed execution takes the place its urgency and age give it.
pub async fn a_delay_costs_neither_urgency_nor_age(w: Arc<World>) {
    let old = delayed(&w, 1_000).await;
    w.pass(10);
    let young = w.create(w.draft()).await;
    let urgent =
        w.create(Create { priority: 10, delay_until: Some(w.now().plus(500)), ..w.draft() }).await;
    w.pass(2_000);
    assert_eq!(w.take_ids(10).await, [urgent, old, young]);
}

/// Delays are promoted in every lane, whoever claims and wherever.
pub async fn promotion_serves_every_lane(w: Arc<World>) {
    let mut ids = Vec::new();
    for name in ["a", "b", "made up just now"] {
        let lane = lane(name);
        let delay_until = Some(w.now().plus(5));
        let draft = Create { lane: lane.clone(), delay_until, ..w.draft() };
        ids.push((lane, w.create(draft).await));
    }
    w.pass(5);
    assert!(w.claim_one().await.is_none(), "none is in this lane");
    for (lane, id) in ids {
        let lanes = vec![lane];
        let given = w.claim(ClaimAsk { lanes, ..w.ask(5) }).await;
        assert_eq!(ids_of(&given), [id]);
    }
}

/// A large wave of delays that end together is taken in bites, and none is left behind.
pub async fn one_claim_promotes_a_bounded_number(w: Arc<World>) {
    let due = w.now().plus(5);
    let creations = (0..=PROMOTE_BATCH_MAX).map(|_| {
        let delay_until = Some(due);
        Create { delay_until, ..w.draft() }.into()
    });
    w.batch(creations.collect()).await;
    w.pass(5);
    assert_eq!(w.promote().await, Some(due), "there is more to do at once");
    let bite = usize::try_from(PROMOTE_BATCH_MAX).expect("a small number");
    assert_eq!((w.store.dump)().ready.len(), bite);
    assert_eq!(w.promote().await, None);
    assert_eq!(w.take_ids(1_000).await.len(), bite + 1);
}

/// The wait before a retry ends like any other.
pub async fn a_backoff_ends_like_a_delay(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 700)).await;
    w.fail(id, fence).await.expect("it is held");
    assert_eq!(w.promote().await, Some(w.now().plus(700)));
    w.pass(699);
    assert!(w.claim_one().await.is_none());
    w.pass(1);
    w.take(id).await;
}

/// An attempt that was given back for a while goes on by itself.
pub async fn a_given_back_attempt_goes_on_when_due(w: Arc<World>) {
    let (id, fence) = w.running(retrying(0, 0)).await;
    let until = w.now().plus(700);
    assert_eq!(w.delay(id, fence, until).await, Ok(until));
    assert_eq!(w.promote().await, Some(until));
    w.pass(700);
    w.take(id).await;
}

/// What was cancelled while delayed does not come back when its time comes.
pub async fn a_cancelled_delay_never_ends(w: Arc<World>) {
    let (early, late) = (delayed(&w, 1_000).await, delayed(&w, 1_000).await);
    w.cancel(early).await.expect("it is delayed");
    w.pass(1_000);
    w.promote().await;
    w.cancel(late).await.expect("it waits");
    assert_eq!(w.promote().await, None);
    assert!(w.claim_one().await.is_none());
}

/// An operator's hold is not undone by the clock.
pub async fn a_held_delay_is_not_promoted(w: Arc<World>) {
    let id = delayed(&w, 1_000).await;
    w.hold(id).await.expect("it is delayed");
    assert_eq!(w.promote().await, None);
    w.pass(1_000);
    assert!(w.claim_one().await.is_none());
}

/// Idle workers are woken by new work, and by a delay they must wait for.
pub async fn new_work_wakes_a_waiting_worker(w: Arc<World>) {
    let backend = &w.store.backend;
    let before = backend.generation(Interest::Work);
    w.create(w.draft()).await;
    w.woken(Interest::Work, before).await;
    let between = backend.generation(Interest::Work);
    assert_ne!(between, before);
    delayed(&w, 1_000).await;
    w.woken(Interest::Work, between).await;
    assert_ne!(backend.generation(Interest::Work), between);
}
