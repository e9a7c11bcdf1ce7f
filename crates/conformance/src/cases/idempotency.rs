//! Creating the same thing twice: by id and by idempotency key.

use std::sync::Arc;

use bytes::Bytes;
use ff_core::backend::{Due, Duty};
use ff_core::command::Reply;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::key_expiry::ForgetKey;
use ff_core::error::Code;
use ff_core::fold::Key;
use ff_core::state::PublicState;
use ff_core::text::{Creator, Encoding, IdempotencyKey, Kind};
use ff_core::{ExecutionId, Policy};
use serde_json::json;

use super::calls::tags;
use crate::world::{World, code, lane, namespace};

const DAY_MS: i64 = 86_400_000;

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::new(text).expect("a valid key")
}

fn keyed(w: &World, text: &str) -> Create {
    Create { idempotency_key: Some(key(text)), ..w.draft() }
}

fn duplicate(execution_id: ExecutionId) -> Created {
    Created::Duplicate { execution_id }
}

/// A client that lost the answer asks again.
pub async fn the_same_creation_twice_is_one_execution(w: Arc<World>) {
    let draft = w.draft();
    let id = w.create(draft.clone()).await;
    assert_eq!(w.run(draft).await, Ok(duplicate(id)));
    assert_eq!(w.take_ids(10).await, [id]);
}

/// A clash names what differs, whatever it is.
pub async fn the_same_id_with_other_content_names_the_field(w: Arc<World>) {
    let first = w.draft();
    w.create(first.clone()).await;
    let before = w.rows();
    let same = || first.clone();
    let policy = Policy::parse(&json!({"max_replay_count": 1})).expect("a valid policy");
    let others = [
        ("namespace", Create { namespace: namespace("other"), ..same() }),
        ("lane_id", Create { lane: lane("other"), ..same() }),
        ("execution_kind", Create { kind: Kind::new("other").expect("valid"), ..same() }),
        ("input_payload", Create { input: Bytes::from_static(b"other"), ..same() }),
        ("payload_encoding", Create { encoding: Encoding::new("json").ok(), ..same() }),
        ("priority", Create { priority: 1, ..same() }),
        ("creator_identity", Create { creator: Creator::new("x").expect("valid"), ..same() }),
        ("idempotency_key", Create { idempotency_key: Some(key("k")), ..same() }),
        ("tags", Create { tags: tags(&[("a.b", "c")]), ..same() }),
        ("policy", Create { policy, ..same() }),
        ("delay_until", Create { delay_until: Some(w.now()), ..same() }),
        ("execution_deadline_at", Create { deadline_at: Some(w.now()), ..same() }),
    ];
    for (field, other) in others {
        let refused = w.run(other).await.expect_err("other content");
        assert_eq!(refused.code, Code::ExecutionIdConflict, "{field}");
        assert_eq!(refused.field, Some(field));
        assert_eq!(refused.value, Some(first.id.to_string()));
    }
    assert_eq!(w.rows(), before);
}

/// The key, not the id, is what the caller promises; partitions do not matter.
pub async fn the_same_key_finds_the_original_under_another_id(w: Arc<World>) {
    let first = keyed(&w, "order-7");
    let second = keyed(&w, "order-7");
    assert_ne!(first.id.partition(), second.id.partition(), "the case needs two");
    let id = w.create(first).await;
    assert_eq!(w.run(second.clone()).await, Ok(duplicate(id)));
    assert_eq!(w.find(second.id).await, None);
    assert_eq!(w.take_ids(10).await, [id]);
}

/// A key reused for something else is a mistake worth naming.
pub async fn the_same_key_with_other_content_is_refused(w: Arc<World>) {
    let id = w.create(keyed(&w, "order-7")).await;
    let other = Create { priority: 5, ..keyed(&w, "order-7") };
    let refused = w.run(other.clone()).await.expect_err("other content");
    assert_eq!(refused.code, Code::IdempotencyKeyConflict);
    assert_eq!(refused.field, Some("priority"));
    assert_eq!(refused.value.as_deref(), Some("order-7"));
    assert!(refused.message.contains(&id.to_string()), "{refused}");
    assert_eq!(w.find(other.id).await, None);
}

/// Tenants do not share keys.
pub async fn a_key_belongs_to_its_namespace(w: Arc<World>) {
    let a = w.create(keyed(&w, "order-7")).await;
    let b = w.create(Create { namespace: namespace("other"), ..keyed(&w, "order-7") }).await;
    assert_eq!(w.take_ids(10).await.len(), 2);
    assert_ne!(a, b);
}

/// A key is remembered for a day and then swept.
pub async fn a_key_is_forgotten_after_its_window(w: Arc<World>) {
    let draft = keyed(&w, "order-7");
    let row = Key::Idempotency(draft.namespace.clone(), key("order-7"));
    w.create(draft).await;
    w.pass(DAY_MS - 1);
    assert_eq!(w.tick(Duty::IdempotencyExpiry).await, []);
    let early = ForgetKey { namespace: namespace("test"), key: key("order-7") };
    assert_eq!(w.run(early).await, Ok(false));
    w.pass(1);
    let forgotten = w.tick(Duty::IdempotencyExpiry).await;
    assert_eq!(forgotten, [Ok(Reply::ForgetKey(true))]);
    let have = w.store.backend.get(&[row]).await.expect("the store works");
    assert!(have.keys.values().all(Option::is_none));
}

/// The window decides, not the sweep.
pub async fn a_key_past_its_window_is_free_before_any_sweep(w: Arc<World>) {
    let first = w.create(keyed(&w, "order-7")).await;
    w.pass(DAY_MS - 1);
    assert_eq!(w.run(keyed(&w, "order-7")).await, Ok(duplicate(first)));
    w.pass(1);
    let second = w.create(keyed(&w, "order-7")).await;
    assert_eq!(w.run(keyed(&w, "order-7")).await, Ok(duplicate(second)));
}

/// A sweep that comes late must not forget the key's second life.
pub async fn forgetting_looks_at_the_window_again(w: Arc<World>) {
    w.create(keyed(&w, "order-7")).await;
    w.pass(DAY_MS);
    let late = w.due(Duty::IdempotencyExpiry, 10).await.commands;
    assert_eq!(late.len(), 1);
    let second = w.create(keyed(&w, "order-7")).await;
    for command in late {
        assert_eq!(w.send(command).await, Ok(Reply::ForgetKey(false)));
    }
    assert_eq!(w.run(keyed(&w, "order-7")).await, Ok(duplicate(second)));
}

/// The window is a policy.
pub async fn a_policy_sets_the_window_of_its_key(w: Arc<World>) {
    let policy = Policy::parse(&json!({"dedup_window_ms": 1_000})).expect("a valid policy");
    let draft = || Create { policy: policy.clone(), ..keyed(&w, "order-7") };
    let first = w.create(draft()).await;
    let due = w.due(Duty::IdempotencyExpiry, 10).await;
    assert_eq!(due.next, Some(w.now().plus(1_000)));
    w.pass(999);
    assert_eq!(w.run(draft()).await, Ok(duplicate(first)));
    w.pass(1);
    assert_ne!(w.create(draft()).await, first);
}

/// A late repeat must not run the work again because the work was tidied away.
pub async fn a_key_outlives_the_execution_it_named(w: Arc<World>) {
    let policy = Policy::parse(&json!({"retention_ms": 0})).expect("a valid policy");
    let draft = || Create { policy: policy.clone(), ..keyed(&w, "order-7") };
    let id = w.create(draft()).await;
    let fence = w.take(id).await.leased.fence;
    assert_eq!(w.complete(id, fence).await, Ok(()));
    assert_eq!(w.tick(Duty::Retention).await, [Ok(Reply::Trim(true))]);
    assert_eq!(w.find(id).await, None);
    assert_eq!(w.run(draft()).await, Ok(duplicate(id)));
    w.pass(DAY_MS);
    assert_ne!(w.create(draft()).await, id);
}

/// Done is done: the repeat does not start it again.
pub async fn a_duplicate_of_finished_work_stays_finished(w: Arc<World>) {
    let draft = keyed(&w, "order-7");
    let id = w.create(draft.clone()).await;
    let fence = w.take(id).await.leased.fence;
    assert_eq!(w.complete(id, fence).await, Ok(()));
    assert_eq!(w.run(draft).await, Ok(duplicate(id)));
    assert_eq!(w.state(id).await, PublicState::Completed);
    assert!(w.claim_one().await.is_none());
}

/// What an operator changed since does not make a repeat a clash.
pub async fn a_changed_execution_is_still_recognised(w: Arc<World>) {
    let draft = w.draft();
    let id = w.create(draft.clone()).await;
    assert_eq!(w.tag(id, "app.step", "2").await, Ok(1));
    assert_eq!(w.prioritise(id, 8).await.map(|p| p.to), Ok(8));
    assert_eq!(w.run(draft).await, Ok(duplicate(id)));
    assert_eq!(w.get(id).await.priority.get(), 8);
}

/// A refused creation leaves its key to the corrected one.
pub async fn a_refused_creation_does_not_use_up_its_key(w: Arc<World>) {
    let wrong = Create { delay_until: Some(ff_core::Millis(-1)), ..keyed(&w, "order-7") };
    assert_eq!(code(w.run(wrong).await), Code::InvalidInput);
    let right = keyed(&w, "order-7");
    assert_eq!(w.create(right.clone()).await, right.id);
}

/// Two callers in one batch are two callers.
pub async fn two_creations_with_one_key_in_one_batch_are_one(w: Arc<World>) {
    let (a, b) = (keyed(&w, "order-7"), keyed(&w, "order-7"));
    let first = a.id;
    let outcomes = w.batch(vec![a.into(), b.into()]).await;
    let execution_id = first;
    let public_state = PublicState::Waiting;
    let expected = [
        Ok(Reply::Create(Created::Created { execution_id, public_state })),
        Ok(Reply::Create(duplicate(first))),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(w.take_ids(10).await, [first]);
}

/// A key that nobody has is nothing to forget.
pub async fn forgetting_an_unknown_key_does_nothing(w: Arc<World>) {
    let forget = ForgetKey { namespace: namespace("test"), key: key("nobody") };
    assert_eq!(w.run(forget).await, Ok(false));
    assert_eq!(w.due(Duty::IdempotencyExpiry, 10).await, Due::default());
}
