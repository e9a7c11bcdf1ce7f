//! Claiming: who gets what, in which order.

use std::sync::Arc;

use ff_core::ClaimAsk;
use ff_core::decide::create::Create;
use ff_core::error::Code;
use ff_core::execution::{AttemptKind, Fence, first_epoch};
use ff_core::state::{AttemptState, EligibilityState, OwnershipState, Phase, PublicState};
use ff_core::{ExecutionId, Policy};
use serde_json::json;

use super::calls::{capabilities, ids_of, requiring, retrying};
use crate::world::{TTL_MS, World, code, lane, worker};

async fn in_lane(w: &World, name: &str, priority: i32) -> ExecutionId {
    let lane = lane(name);
    w.create(Create { lane, priority, ..w.draft() }).await
}

fn offering(w: &World, tokens: &[&str], max: u32) -> ClaimAsk {
    ClaimAsk { capabilities: capabilities(tokens), ..w.ask(max) }
}

/// Urgency comes before age.
pub async fn the_more_urgent_goes_first(w: Arc<World>) {
    let low = in_lane(&w, "default", 0).await;
    w.pass(10);
    let middle = in_lane(&w, "default", 500).await;
    w.pass(10);
    let high = in_lane(&w, "default", 9_000).await;
    assert_eq!(w.take_ids(10).await, [high, middle, low]);
}

/// Among equals, first come first served.
pub async fn among_equals_the_older_goes_first(w: Arc<World>) {
    let mut created = Vec::new();
    for _ in 0..4 {
        created.push(w.create(w.draft()).await);
        w.pass(1);
    }
    assert_eq!(w.take_ids(1).await, created[..1]);
    assert_eq!(w.take_ids(10).await, created[1..]);
}

/// The order is total, so every store hands out the same.
pub async fn a_tie_goes_by_id(w: Arc<World>) {
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(w.create(w.draft()).await);
    }
    ids.sort_unstable();
    assert_eq!(w.take_ids(3).await, ids[..3]);
    assert_eq!(w.take_ids(10).await, ids[3..]);
}

/// Who was here first and failed does not start at the back.
pub async fn a_retried_execution_keeps_its_age(w: Arc<World>) {
    let (old, fence) = w.running(retrying(1, 0)).await;
    w.pass(100);
    let young = w.create(w.draft()).await;
    w.fail(old, fence).await.expect("it is held");
    assert_eq!(w.take_ids(2).await, [old, young]);
}

/// A lane is a queue of its own.
pub async fn a_worker_is_given_only_from_the_lanes_it_asks_for(w: Arc<World>) {
    let mail = in_lane(&w, "mail", 0).await;
    assert!(w.claim_one().await.is_none());
    let ask = |name: &str| ClaimAsk { lanes: vec![lane(name)], ..w.ask(10) };
    assert!(w.claim(ask("mai")).await.is_empty());
    assert_eq!(ids_of(&w.claim(ask("mail")).await), [mail]);
}

/// One worker for several lanes serves them as if they were one.
pub async fn several_lanes_are_served_by_urgency(w: Arc<World>) {
    let last = in_lane(&w, "a", 1).await;
    let second = in_lane(&w, "b", 3).await;
    let first = in_lane(&w, "c", 9).await;
    let third = in_lane(&w, "a", 2).await;
    let lanes = vec![lane("a"), lane("b"), lane("c")];
    let given = w.claim(ClaimAsk { lanes, ..w.ask(3) }).await;
    assert_eq!(ids_of(&given), [first, second, third]);
    let lanes = vec![lane("b"), lane("a")];
    let given = w.claim(ClaimAsk { lanes, ..w.ask(3) }).await;
    assert_eq!(ids_of(&given), [last]);
}

/// A batch is at most what was asked for, and the rest stays.
pub async fn a_claim_gives_no_more_than_it_was_asked_for(w: Arc<World>) {
    for _ in 0..5 {
        w.create(w.draft()).await;
    }
    let mut sizes = Vec::new();
    for _ in 0..3 {
        sizes.push(w.take_ids(3).await.len());
    }
    assert_eq!(sizes, [3, 2, 0]);
}

/// Restricted work goes to a worker that offers everything it needs, and to no other.
pub async fn restricted_work_needs_every_capability(w: Arc<World>) {
    let id = w.create_with(requiring(&["eu", "gpu"])).await;
    for tokens in [&[][..], &["gpu"], &["eu"], &["eu", "gp"]] {
        assert!(w.claim(offering(&w, tokens, 1)).await.is_empty());
    }
    let given = w.claim(offering(&w, &["cpu", "eu", "gpu"], 1)).await;
    assert_eq!(ids_of(&given), [id]);
}

/// Tokens are compared byte by byte.
pub async fn capabilities_are_case_sensitive(w: Arc<World>) {
    let id = w.create_with(requiring(&["GPU-é"])).await;
    assert!(w.claim(offering(&w, &["gpu-é"], 1)).await.is_empty());
    assert!(w.claim(offering(&w, &["GPU-e"], 1)).await.is_empty());
    assert_eq!(ids_of(&w.claim(offering(&w, &["GPU-é"], 1)).await), [id]);
}

/// A worker that can do more still does the plain work.
pub async fn plain_work_goes_to_any_worker(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    assert_eq!(ids_of(&w.claim(offering(&w, &["gpu"], 1)).await), [id]);
}

/// Work that nobody here can do does not block what they can.
pub async fn unmatched_work_at_the_head_hides_nothing(w: Arc<World>) {
    for _ in 0..20 {
        let policy = Policy::parse(&requiring(&["gpu"])).expect("a valid policy");
        let priority = 9_000;
        w.create(Create { policy, priority, ..w.draft() }).await;
    }
    w.pass(1);
    let plain = w.create(w.draft()).await;
    assert_eq!(w.take_ids(1).await, [plain]);
    assert_eq!(w.claim(offering(&w, &["gpu"], 100)).await.len(), 20);
}

/// Matching and plain work in one lane are one queue to a worker that may have both.
pub async fn requirements_do_not_change_the_order(w: Arc<World>) {
    let mut created = Vec::new();
    for policy in [json!({}), requiring(&["a"]), requiring(&["a", "b"]), json!({})] {
        created.push(w.create_with(policy).await);
        w.pass(1);
    }
    let given = w.claim(offering(&w, &["a", "b"], 10)).await;
    assert_eq!(ids_of(&given), created);
}

/// Workers that ask in one call do not get each other's work.
pub async fn asks_in_one_call_share_nothing(w: Arc<World>) {
    let mut created = Vec::new();
    for _ in 0..5 {
        created.push(w.create(w.draft()).await);
        w.pass(1);
    }
    let asks = [w.ask(2), w.ask(2), w.ask(2)];
    let claims = w.store.backend.claim(&asks).await.expect("the store works");
    let given: Vec<_> = claims.given.iter().map(|given| ids_of(given)).collect();
    let expected = [&created[..2], &created[2..4], &created[4..]];
    assert_eq!(given, expected);
}

/// Workers that ask at once do not get each other's work either.
pub async fn claims_at_the_same_time_share_nothing(w: Arc<World>) {
    for _ in 0..10 {
        w.create(w.draft()).await;
    }
    let (a, b, c) = tokio::join!(w.take_ids(4), w.take_ids(4), w.take_ids(4));
    let mut all = [a, b, c].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 10);
}

/// Held work is not given a second time.
pub async fn a_claimed_execution_is_not_claimable(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    w.take(id).await;
    assert!(w.claim_one().await.is_none());
    assert_eq!(code(w.claim_by_name(id).await), Code::ExecutionNotLeaseable);
}

/// The lease, the attempt and the execution tell the same story.
pub async fn a_claim_reads_back_as_it_was_given(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let leased = w.take_as(id, "w7").await.leased;
    let first = Fence { attempt_index: 0, lease_epoch: first_epoch(w.now()) + 1 };
    assert_eq!(leased.fence, first);
    assert_eq!(leased.lease_until, w.now().plus(TTL_MS));
    let snapshot = w.snapshot(id).await;
    let attempt = snapshot.current_attempt.expect("an attempt runs");
    assert_eq!((attempt.index, attempt.kind), (0, AttemptKind::Initial));
    assert_eq!(attempt.worker, worker("w7"));
    let lease = snapshot.current_lease.expect("a worker holds it");
    assert_eq!((lease.fence, lease.worker), (first, worker("w7")));
    assert_eq!(lease.expires_at, leased.lease_until);
    assert_eq!(snapshot.counts.attempts, 1);
    assert_eq!(leased.execution, w.get(id).await);
}

/// Every dimension of the state says that a worker has it.
pub async fn a_claimed_execution_is_active_in_every_dimension(w: Arc<World>) {
    let (id, _) = w.running(json!({})).await;
    let vector = w.vector(id).await;
    assert_eq!(vector.lifecycle_phase, Phase::Active);
    assert_eq!(vector.ownership_state, OwnershipState::Leased);
    assert_eq!(vector.eligibility_state, EligibilityState::NotApplicable);
    assert_eq!(vector.attempt_state, AttemptState::RunningAttempt);
    assert_eq!(vector.public_state, PublicState::Active);
    assert_eq!((vector.terminal_outcome, vector.blocking_detail), (None, None));
}

/// The first start is a fact about the execution, not about an attempt.
pub async fn the_first_start_is_kept(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 1_000)).await;
    let began = w.now();
    w.pass(500);
    w.fail(id, fence).await.expect("it is held");
    w.pass(1_000);
    w.take(id).await;
    assert_eq!(w.snapshot(id).await.started_at, Some(began));
    assert_eq!(w.active(id).await.attempt.started_at, began.plus(1_500));
}
