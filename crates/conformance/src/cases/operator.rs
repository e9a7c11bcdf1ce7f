//! What operators change about work that waits: urgency, holds, tags.

use std::sync::Arc;

use ff_core::decide::create::Create;
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::PriorityChanged;
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::query::Search;
use ff_core::state::{BlockingReason, EligibilityState, PublicState};
use serde_json::json;

use super::calls::{progress, retrying, tags};
use crate::world::{World, code};

/// Urgency moves it in its queue and is on record.
pub async fn a_changed_priority_changes_the_order(w: Arc<World>) {
    let first = w.create(w.draft()).await;
    w.pass(1);
    let second = w.create(w.draft()).await;
    let changed = PriorityChanged { from: 0, to: 9_000 };
    assert_eq!(w.prioritise(second, 9_000).await, Ok(changed));
    let events = w.events(second).await;
    let moved = EventKind::PriorityChanged { from: 0, to: 9_000 };
    assert_eq!(events.into_iter().map(|e| e.kind).collect::<Vec<_>>(), [moved]);
    assert_eq!(w.take_ids(10).await, [second, first]);
}

/// Age counts from the creation, whatever the priority was in between.
pub async fn a_changed_priority_keeps_the_age(w: Arc<World>) {
    let first = w.create(w.draft()).await;
    w.pass(1);
    let second = w.create(w.draft()).await;
    w.pass(1);
    w.prioritise(second, 5).await.expect("it waits");
    w.prioritise(first, 5).await.expect("it waits");
    assert_eq!(w.take_ids(10).await, [first, second]);
}

/// Nothing changed is nothing to tell.
pub async fn the_same_priority_is_no_event(w: Arc<World>) {
    let id = w.create(Create { priority: 4, ..w.draft() }).await;
    let before = w.rows();
    let same = PriorityChanged { from: 4, to: 4 };
    assert_eq!(w.prioritise(id, 4).await, Ok(same));
    assert_eq!(w.rows(), before);
}

/// Only what waits for a worker right now has a place to move in.
pub async fn only_what_is_claimable_can_be_prioritised(w: Arc<World>) {
    let delay_until = Some(w.now().plus(100));
    let delayed = w.create(Create { delay_until, ..w.draft() }).await;
    let held = w.create(w.draft()).await;
    w.hold(held).await.expect("it waits");
    let done = w.finished(json!({})).await;
    let (running, _) = w.running(json!({})).await;
    let before = w.rows();
    for id in [delayed, held, done, running] {
        assert_eq!(code(w.prioritise(id, 5).await), Code::ExecutionNotEligible);
    }
    assert_eq!(w.rows(), before);
}

/// A delay that is over is over, whether or not anybody has claimed since.
pub async fn a_delay_that_is_over_can_be_prioritised(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 100)).await;
    w.fail(id, fence).await.expect("it is held");
    w.pass(1);
    let other = w.create(Create { priority: 3, ..w.draft() }).await;
    w.pass(100);
    w.prioritise(id, 7).await.expect("its wait is over");
    assert_eq!(w.take_ids(10).await, [id, other]);
}

/// A held execution reads as waiting, for an operator.
pub async fn a_held_execution_is_not_claimed(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    assert_eq!(w.hold(id).await, Ok(()));
    let vector = w.vector(id).await;
    assert_eq!(vector.public_state, PublicState::Waiting);
    assert_eq!(vector.eligibility_state, EligibilityState::BlockedByOperator);
    assert_eq!(vector.blocking_reason, BlockingReason::PausedByOperator);
    assert_eq!(vector.blocking_detail.as_deref(), Some("held: look first"));
    assert!(w.claim_one().await.is_none());
    assert_eq!(w.event_names(id).await, ["held"]);
}

/// Letting go gives it its old place back.
pub async fn letting_go_gives_the_place_back(w: Arc<World>) {
    let old = w.create(w.draft()).await;
    w.pass(1);
    let young = w.create(w.draft()).await;
    w.hold(old).await.expect("it waits");
    w.pass(1_000);
    assert_eq!(w.unhold(old).await, Ok(()));
    assert_eq!(w.event_names(old).await, ["held", "unheld"]);
    assert_eq!(w.take_ids(10).await, [old, young]);
}

/// A delay goes on under a hold, and counts again after it.
pub async fn a_hold_and_a_delay_are_independent(w: Arc<World>) {
    let until = w.now().plus(1_000);
    let delay_until = Some(until);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id = w.create(Create { delay_until, ..w.draft() }).await;
        w.hold(id).await.expect("it is delayed");
        ids.push(id);
    }
    w.unhold(ids[0]).await.expect("it is held");
    assert_eq!(w.state(ids[0]).await, PublicState::Delayed);
    assert!(w.claim_one().await.is_none());
    w.pass(1_000);
    assert_eq!(w.take_ids(10).await, ids[..1]);
    w.unhold(ids[1]).await.expect("it is held");
    assert_eq!(w.take_ids(10).await, ids[1..]);
}

/// The first reason is the one on record.
pub async fn holding_twice_keeps_the_first_reason(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    w.hold(id).await.expect("it waits");
    let before = w.rows();
    w.pass(10);
    let reason = "another reason".to_owned();
    assert_eq!(w.run(Hold { id, reason, version: None }).await, Ok(()));
    assert_eq!(w.rows(), before);
}

/// Letting go of what nobody holds changes nothing.
pub async fn unholding_what_is_not_held_changes_nothing(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let before = w.rows();
    assert_eq!(w.unhold(id).await, Ok(()));
    assert_eq!(w.rows(), before);
}

/// A hold keeps from being claimed; what is claimed or finished cannot be kept.
pub async fn only_what_waits_can_be_held(w: Arc<World>) {
    let done = w.finished(json!({})).await;
    let (running, fence) = w.running(json!({})).await;
    let before = w.rows();
    for id in [done, running] {
        assert_eq!(code(w.hold(id).await), Code::NotRunnable);
        assert_eq!(code(w.unhold(id).await), Code::NotRunnable);
    }
    assert_eq!(w.rows(), before);
    assert_eq!(w.complete(running, fence).await, Ok(()));
}

/// Tags are set, replaced and removed in one call, and the call says how many are left.
pub async fn tags_are_set_replaced_and_removed(w: Arc<World>) {
    let given = tags(&[("app.a", "1"), ("app.b", "2"), ("app.c", "3")]);
    let id = w.create(Create { tags: given, ..w.draft() }).await;
    w.pass(10);
    let edit = Edit {
        set: tags(&[("app.b", "zwei"), ("app.d", "")]),
        remove: ["app.a", "app.never"].map(str::to_owned).into(),
        version: None,
    };
    assert_eq!(w.run(SetTags { id, edit }).await, Ok(3));
    let expected = tags(&[("app.b", "zwei"), ("app.c", "3"), ("app.d", "")]);
    let snapshot = w.snapshot(id).await;
    assert_eq!((snapshot.tags, snapshot.last_mutation_at), (expected, w.now()));
    let find = |key: &str, value: &str| Search {
        tag: Some((key.to_owned(), value.to_owned())),
        ..Search::default()
    };
    assert_eq!(w.search(find("app.b", "zwei")).await, [id]);
    assert!(w.search(find("app.b", "2")).await.is_empty());
}

/// People annotate what is over, and what is running, without disturbing it.
pub async fn tags_change_in_any_state(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    assert_eq!(w.tag(id, "app.seen", "yes").await, Ok(1));
    assert_eq!(w.run(progress(id, fence, 1)).await, Ok(()));
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(w.tag(id, "app.paid", "no").await, Ok(2));
    assert_eq!(w.snapshot(id).await.tags, tags(&[("app.paid", "no"), ("app.seen", "yes")]));
    assert_eq!(w.event_names(id).await, ["completion"]);
}

/// An edit that changes nothing writes nothing.
pub async fn tags_that_are_already_so_change_nothing(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    assert_eq!(w.tag(id, "app.a", "1").await, Ok(1));
    let before = w.rows();
    w.pass(10);
    assert_eq!(w.tag(id, "app.a", "1").await, Ok(1));
    assert_eq!(w.rows(), before);
}
