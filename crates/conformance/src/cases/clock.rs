//! Clocks: the store's decides, and when it jumps nobody writes twice and nothing runs backwards.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::decide::create::Create;
use ff_core::error::Code;
use ff_core::state::PublicState;
use serde_json::json;

use super::calls::{progress, retrying};
use crate::world::{TTL_MS, World, code, worker};

const TTL: i64 = TTL_MS.cast_signed();
const HOUR: i64 = 3_600_000;

/// No caller brings its own time: every time on a row is the store's.
pub async fn the_store_clock_stamps_everything(w: Arc<World>) {
    assert_eq!(w.store.backend.now().await, Ok(w.now()));
    let created = w.now();
    let id = w.create(w.draft()).await;
    w.pass(10);
    let fence = w.take(id).await.leased.fence;
    w.pass(10);
    assert_eq!(w.store.backend.now().await, Ok(created.plus(20)));
    w.complete(id, fence).await.expect("it is held");
    let seen = w.snapshot(id).await;
    assert_eq!(seen.created_at, created);
    assert_eq!(seen.started_at, Some(created.plus(10)));
    assert_eq!(seen.completed_at, Some(created.plus(20)));
    assert_eq!(w.events(id).await[0].at, created.plus(20));
}

/// Whatever the clock does, the times of one execution only grow.
pub async fn times_never_run_backwards_on_a_row(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    let began = w.now();
    w.pass(-HOUR);
    w.run(progress(id, fence, 10)).await.expect("it is held");
    let said = w.get(id).await.progress.clone().expect("it was reported");
    assert_eq!(said.at, began);
    w.fail(id, fence).await.expect("it is held");
    assert_eq!(w.attempts(id).await[0].ended_at, began);
    w.pass(HOUR + 5);
    let fence = w.take(id).await.leased.fence;
    w.pass(-HOUR);
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(w.ending(id).await.at, began.plus(5));
    let times: Vec<_> = w.events(id).await.into_iter().map(|e| e.at).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(w.get(id).await.updated_at, began.plus(5));
}

/// Renewing under a clock that jumped back does not end the lease.
pub async fn a_lease_survives_a_jump_back(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let began = w.now();
    w.pass(10);
    w.renew(id, fence).await.expect("it is held");
    w.pass(-HOUR);
    let until = w.renew(id, fence).await.expect("it is held");
    assert_eq!(until, began.plus(10 + TTL_MS));
    assert_eq!(w.active(id).await.lease.renewed_at, began.plus(10));
    assert!(w.tick(Duty::LeaseExpiry).await.is_empty());
    assert_eq!(w.complete(id, fence).await, Ok(()));
}

/// A lease that was lost under a clock that ran ahead stays lost when it is set right.
pub async fn a_lease_lost_to_a_jump_stays_lost(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(HOUR);
    w.tick(Duty::LeaseExpiry).await;
    w.pass(-HOUR);
    assert_eq!(code(w.complete(id, fence).await), Code::LeaseExpired);
    let second = w.take_as(id, "w2").await.leased.fence;
    assert_eq!(code(w.complete(id, fence).await), Code::StaleLease);
    assert_eq!(w.complete(id, second).await, Ok(()));
    assert_eq!(w.event_names(id).await, ["lease_expired", "lease_reclaimed", "completion"]);
}

/// Work done by a worker that claimed in the future goes on when the clock is set right.
pub async fn a_worker_goes_on_after_the_clock_is_set_right(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    w.pass(HOUR);
    let fence = w.take(id).await.leased.fence;
    w.pass(-HOUR);
    w.run(progress(id, fence, 10)).await.expect("it is held");
    w.renew(id, fence).await.expect("it is held");
    assert_eq!(w.complete(id, fence).await, Ok(()));
    assert_eq!(w.ending(id).await.at, w.now().plus(HOUR.cast_unsigned()));
}

/// A jump forward takes a live worker's lease, but never gives two workers the same one.
pub async fn a_jump_forward_never_makes_two_holders(w: Arc<World>) {
    let (id, first) = w.running(json!({})).await;
    let mut fences = vec![first];
    for name in ["w2", "w3", "w4"] {
        w.pass(TTL * 3);
        w.tick_all().await;
        // What is lost again and again is taken over after a pause.
        w.pass(2_000);
        fences.push(w.take_as(id, name).await.leased.fence);
        w.pass(-TTL * 2);
    }
    let last = fences.pop().expect("there are four");
    for fence in fences {
        assert_eq!(code(w.complete(id, fence).await), Code::StaleLease);
    }
    assert_eq!(w.active(id).await.attempt.worker, worker("w4"));
    assert_eq!(w.complete(id, last).await, Ok(()));
}

/// A delay that seemed over is waited for again, and the work is handed out once.
pub async fn a_promoted_delay_is_not_claimed_early(w: Arc<World>) {
    let delay_until = Some(w.now().plus(1_000));
    let id = w.create(Create { delay_until, ..w.draft() }).await;
    w.pass(1_000);
    w.promote().await;
    w.pass(-500);
    assert_eq!(w.state(id).await, PublicState::Delayed);
    assert_eq!(code(w.claim_by_name(id).await), Code::ExecutionNotLeaseable);
    assert!(w.claim_one().await.is_none());
    w.pass(500);
    w.take(id).await;
    assert!(w.claim_one().await.is_none());
}

/// Nothing is timed out, expired or trimmed by a clock that stands still or runs back.
pub async fn a_jump_back_makes_nothing_due(w: Arc<World>) {
    let timeouts = json!({"attempt_timeout_ms": 1_000, "execution_deadline_ms": 2_000});
    let (id, _) = w.running(json!({"timeout_policy": timeouts})).await;
    w.finished(json!({"retention_ms": 10})).await;
    w.pass(-100 * HOUR);
    for duty in Duty::ALL {
        assert!(w.tick(*duty).await.is_empty(), "{duty}");
    }
    assert_eq!(w.state(id).await, PublicState::Active);
}

/// A backoff counts from the latest time the row has seen.
pub async fn a_backoff_counts_from_the_latest_time_seen(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 1_000)).await;
    let began = w.now();
    w.pass(-HOUR);
    w.fail(id, fence).await.expect("it is held");
    assert_eq!(w.promote().await, Some(began.plus(1_000)));
    w.pass(HOUR + 999);
    assert!(w.claim_one().await.is_none());
    w.pass(1);
    w.take(id).await;
}

/// A delay that was over and, by the clock, no longer is, must not hide the work behind it.
pub async fn a_promoted_delay_does_not_block_the_queue(w: Arc<World>) {
    let delay_until = Some(w.now().plus(1_000));
    w.create(Create { delay_until, ..w.draft() }).await;
    w.pass(1);
    let ready = w.create(w.draft()).await;
    w.pass(999);
    w.promote().await;
    w.pass(-500);
    assert_eq!(w.take_ids(1).await, [ready]);
}
