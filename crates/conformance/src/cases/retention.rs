//! Retention: what is over goes, with everything it owned, when its time is up.

use std::sync::Arc;

use ff_core::backend::{Duty, WorkFilter};
use ff_core::command::Reply;
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create::{Create, Created};
use ff_core::decide::drop_consumer::DropConsumer;
use ff_core::decide::retention::Trim;
use ff_core::error::Code;
use ff_core::event::Cursor;
use ff_core::fold::BlobRef;
use ff_core::query::{Query, Rows, Search};
use ff_core::state::PublicState;
use ff_core::text::ConsumerName;
use ff_core::{ExecutionId, Policy};
use serde_json::json;

use super::calls::{operator_calls, retrying, tags, worker_calls};
use crate::world::{World, code, lane};

const DAY: i64 = 86_400_000;

async fn trimmed(w: &World) -> usize {
    let outcomes = w.tick(Duty::Retention).await;
    assert!(outcomes.iter().all(|o| *o == Ok(Reply::Trim(true))), "{outcomes:?}");
    outcomes.len()
}

/// After a day nothing of it is left.
pub async fn a_finished_execution_goes_with_all_it_owned(w: Arc<World>) {
    let policy = Policy::parse(&retrying(1, 0)).expect("a valid policy");
    let tags = tags(&[("app.a", "1")]);
    let id = w.create(Create { policy, tags, ..w.draft() }).await;
    let fence = w.take(id).await.leased.fence;
    w.fail(id, fence).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.complete(id, fence).await.expect("it is held");
    w.pass(DAY - 1);
    assert_eq!(trimmed(&w).await, 0);
    w.pass(1);
    assert_eq!(trimmed(&w).await, 1);
    assert_eq!(w.find(id).await, None);
    assert_eq!(w.blob(BlobRef::Input(id)).await, None);
    assert_eq!(w.blob(BlobRef::Result(id, 1)).await, None);
    assert!(w.attempts(id).await.is_empty());
    assert!(w.events(id).await.is_empty());
    let tables = (w.store.dump)();
    assert!(tables.tags.is_empty() && tables.timers.is_empty() && tables.ready.is_empty());
}

/// However it ended, it goes.
pub async fn every_ending_is_trimmed(w: Arc<World>) {
    let done = w.finished(json!({})).await;
    let (failed, fence) = w.running(json!({})).await;
    w.fail(failed, fence).await.expect("it is held");
    let waiting = w.create(w.draft()).await;
    w.cancel(waiting).await.expect("it waits");
    let (running, _) = w.running(json!({})).await;
    w.cancel(running).await.expect("it is held");
    let deadline_at = Some(w.now());
    let expired = w.create(Create { deadline_at, ..w.draft() }).await;
    w.tick(Duty::Deadline).await;
    w.pass(DAY);
    assert_eq!(trimmed(&w).await, 5);
    for id in [done, failed, waiting, running, expired] {
        assert_eq!(w.find(id).await, None);
    }
}

/// A policy may keep it longer, shorter, or not at all.
pub async fn a_policy_sets_how_long_it_is_kept(w: Arc<World>) {
    let gone = w.finished(json!({"retention_ms": 0})).await;
    let short = w.finished(json!({"retention_ms": 1_000})).await;
    let long = w.finished(json!({"retention_ms": 2 * DAY})).await;
    assert_eq!(trimmed(&w).await, 1);
    assert_eq!(w.find(gone).await, None);
    w.pass(1_000);
    assert_eq!(trimmed(&w).await, 1);
    assert_eq!(w.find(short).await, None);
    w.pass(2 * DAY - 1_001);
    assert_eq!(trimmed(&w).await, 0);
    w.pass(1);
    assert_eq!(trimmed(&w).await, 1);
    assert_eq!(w.find(long).await, None);
}

/// Age alone is no reason to go.
pub async fn nothing_unfinished_is_trimmed(w: Arc<World>) {
    let delay_until = Some(w.now().plus(1));
    let delayed = w.create(Create { delay_until, ..w.draft() }).await;
    let (running, _) = w.running(json!({"retention_ms": 0})).await;
    w.pass(100 * DAY);
    assert_eq!(trimmed(&w).await, 0);
    for id in [delayed, running] {
        assert_eq!(w.run(Trim { id }).await, Ok(false));
    }
    assert_eq!(w.state(running).await, PublicState::Active);
}

/// What is gone is gone for every call, and is not an error of another kind.
pub async fn calls_on_what_was_trimmed_are_not_found(w: Arc<World>) {
    let (id, fence) = w.running(json!({"retention_ms": 0})).await;
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(trimmed(&w).await, 1);
    let calls = worker_calls(id, fence).into_iter();
    for call in calls.chain(operator_calls(id)) {
        let name = call.name();
        assert_eq!(code(w.send(call).await), Code::ExecutionNotFound, "{name}");
    }
    assert_eq!(w.run(Trim { id }).await, Ok(false));
}

/// Its id may be used again.
pub async fn a_trimmed_id_may_be_used_again(w: Arc<World>) {
    let policy = Policy::parse(&json!({"retention_ms": 0})).expect("a valid policy");
    let draft = Create { policy, ..w.draft() };
    let id = w.create(draft.clone()).await;
    let fence = w.take(id).await.leased.fence;
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(trimmed(&w).await, 1);
    let public_state = PublicState::Waiting;
    let execution_id = id;
    let again = w.run(draft).await;
    assert_eq!(again, Ok(Created::Created { execution_id, public_state }));
    assert_eq!(w.get(id).await.version, 1);
    assert!(w.event_names(id).await.is_empty());
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await, None);
}

/// Searches and counts forget it too.
pub async fn what_was_trimmed_is_not_listed(w: Arc<World>) {
    let id = w.finished(json!({"retention_ms": 0})).await;
    assert_eq!(w.search(Search::default()).await, [id]);
    assert_eq!(trimmed(&w).await, 1);
    assert!(w.search(Search::default()).await.is_empty());
    assert_eq!(w.list(&Query::Counts, 10).await, Rows::Counts(Vec::new()));
    assert_eq!(w.list(&Query::Partition(id.partition()), 10).await, Rows::Ids(Vec::new()));
}

/// A long backlog goes in bites, the longest finished first.
pub async fn retention_goes_in_bites_oldest_first(w: Arc<World>) {
    let mut ids: Vec<ExecutionId> = Vec::new();
    for _ in 0..5 {
        ids.push(w.finished(json!({})).await);
        w.pass(10);
    }
    w.pass(DAY);
    for (limit, left) in [(2, 3), (2, 1), (2, 0)] {
        let due = w.due(Duty::Retention, limit).await;
        let expected: Vec<_> = ids.drain(..ids.len() - left).map(|id| Trim { id }.into()).collect();
        assert_eq!(due.commands, expected);
        for command in due.commands {
            assert_eq!(w.send(command).await, Ok(Reply::Trim(true)));
        }
    }
}

/// Lanes that nobody configured are tidied like the others.
pub async fn retention_serves_every_lane(w: Arc<World>) {
    for name in ["default", "made up", "~"] {
        let lane = lane(name);
        let id = w.create(Create { lane, ..w.draft() }).await;
        w.cancel(id).await.expect("it waits");
    }
    w.pass(DAY);
    assert_eq!(trimmed(&w).await, 3);
}

/// A consumer that registers or goes back while a tick is under way is waited for all the same.
pub async fn retention_looks_for_consumers_again_before_it_removes(w: Arc<World>) {
    let (id, fence) = w.running(json!({"retention_ms": 0})).await;
    w.complete(id, fence).await.expect("it is held");
    let filter = WorkFilter::default();
    let due = w.store.backend.due(Duty::Retention, &filter, 10).await.expect("the store works");
    assert_eq!(due.commands, [Trim { id }.into()]);
    let consumer: ConsumerName = "late".parse().expect("a valid name");
    w.run(SaveCursor { consumer: consumer.clone(), cursor: Cursor::Start, saved: None })
        .await
        .expect("valid");
    assert_eq!(w.batch(due.commands).await, [Ok(Reply::Trim(false))]);
    assert_eq!(w.events(id).await.len(), 1);
    w.run(DropConsumer { consumer, saved: None }).await.expect("it is there");
    assert_eq!(w.run(Trim { id }).await, Ok(true));
}
