//! Reading one execution: what is there, what is not, and what it shows in each state.

use std::sync::Arc;

use bytes::Bytes;
use ff_core::backend::{Fate, Kept};
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::replay::Replay;
use ff_core::error::{Class, Code};
use ff_core::execution::{AttemptKind, AttemptOutcome, Fence};
use ff_core::fold::{Blob, BlobRef, Key};
use ff_core::query::{Page, Query, Rows};
use ff_core::state::{BlockingReason, PublicState};
use ff_core::text::Encoding;
use ff_core::view::{AttemptLine, ExecutionInfo, ExecutionSnapshot};
use serde_json::json;

use super::calls::{operator_calls, retrying, tags, worker_calls};
use crate::world::{World, worker};

/// A read of what does not exist is an answer, not an error.
pub async fn a_missing_execution_reads_as_nothing(w: Arc<World>) {
    let id = w.id();
    assert_eq!(w.find(id).await, None);
    assert!(w.attempts(id).await.is_empty());
    assert!(w.events(id).await.is_empty());
    assert_eq!(w.blob(BlobRef::Input(id)).await, None);
}

/// A call on what does not exist says exactly that, and which.
pub async fn a_call_on_a_missing_execution_is_not_found(w: Arc<World>) {
    let id = w.id();
    let (attempt_index, lease_epoch) = (0, 1);
    let fence = Fence { attempt_index, lease_epoch };
    let before = w.rows();
    for call in worker_calls(id, fence).into_iter().chain(operator_calls(id)) {
        let name = call.name();
        let refused = w.send(call).await.expect_err("there is none");
        assert_eq!(refused.code, Code::ExecutionNotFound, "{name}");
        assert_eq!(refused.code.class(), Class::NotFound);
        assert_eq!(refused.value, Some(id.to_string()), "{name}");
    }
    assert_eq!(w.rows(), before);
}

/// Many rows in one read: the present and the absent are told apart.
pub async fn several_keys_are_read_at_once(w: Arc<World>) {
    let (a, gone, b) = (w.create(w.draft()).await, w.id(), w.create(w.draft()).await);
    let keys = [a, gone, b].map(Key::Execution);
    let have = w.store.backend.get(&keys).await.expect("the store works");
    assert_eq!(have.executions.len(), 3);
    assert_eq!(have.executions[&gone], None);
    for id in [a, b] {
        assert_eq!(have.executions[&id].as_ref().map(|x| x.id), Some(id));
    }
}

/// Bytes that are there come, in the order asked for; the others are left out.
pub async fn several_payloads_are_read_at_once(w: Arc<World>) {
    let a = w.finished(json!({})).await;
    let b = w.create(w.draft()).await;
    let asked = [
        BlobRef::Result(a, 0),
        BlobRef::Result(b, 0),
        BlobRef::Input(w.id()),
        BlobRef::Input(b),
        BlobRef::Result(a, 1),
        BlobRef::Input(a),
    ];
    let found = w.store.backend.blobs(&asked).await.expect("the store works");
    let found: Vec<_> = found.into_iter().map(|blob| (blob.at, blob.bytes)).collect();
    let expected = [(asked[0], &b"out"[..]), (asked[3], b"in"), (asked[5], b"in")];
    assert_eq!(found.len(), 3);
    for ((at, bytes), expected) in found.iter().zip(expected) {
        assert_eq!((*at, &bytes[..]), expected);
    }
}

/// How something ended, and with what; small results and large ones, of the first attempt and of
/// later ones.
pub async fn a_fate_is_told_with_its_result(w: Arc<World>) {
    let told = async |id| {
        let Fate::Ended(ended) = w.store.backend.fate(id).await.expect("the store works") else {
            panic!("{id} has ended")
        };
        let result = match ended.result {
            None => None,
            Some(Kept::Here(blob)) => Some(blob),
            Some(Kept::There(at)) => w.store.backend.blobs(&[at]).await.expect("it works").pop(),
        };
        (ended.state, result)
    };
    let open = async |id| w.store.backend.fate(id).await == Ok(Fate::Open);
    assert_eq!(w.store.backend.fate(w.id()).await, Ok(Fate::Unknown));
    let encoding = Some(Encoding::new("text/plain").expect("a valid encoding"));
    for (size, encoding) in [(0, None), (5, encoding.clone()), (100_000, encoding)] {
        let id = w.create(w.draft()).await;
        assert!(open(id).await, "it waits");
        for index in 0..2 {
            let fence = w.take(id).await.leased.fence;
            assert!(open(id).await, "it runs");
            let bytes = Bytes::from(vec![b'x'; size + usize::try_from(index).unwrap_or(0)]);
            let (result, encoding) = (Some(bytes.clone()), encoding.clone());
            let complete = Complete { id, fence, result, encoding: encoding.clone() };
            w.run(complete).await.expect("it is held");
            let result = Blob { at: BlobRef::Result(id, index), encoding, bytes };
            assert_eq!(told(id).await, (PublicState::Completed, Some(result)));
            w.run(Replay { id, reason: "again".to_owned(), replays: None, downstream: true })
                .await
                .expect("it is over");
            assert!(open(id).await, "it starts over");
        }
        w.cancel(id).await.expect("it waits");
        assert_eq!(told(id).await, (PublicState::Cancelled, None));
    }
    let (id, other) = (w.create(w.draft()).await, w.create(w.draft()).await);
    w.succeed_silently(id).await;
    assert_eq!(told(id).await, (PublicState::Completed, None));
    w.fail_for_good(other).await;
    assert_eq!(told(other).await, (PublicState::Failed, None));
}

/// What a person sees of work that waits.
pub async fn a_snapshot_of_what_waits(w: Arc<World>) {
    let tags = tags(&[("app.a", "1")]);
    let id = w.create(Create { tags: tags.clone(), priority: 3, ..w.draft() }).await;
    let seen = w.snapshot(id).await;
    assert_eq!((seen.execution_id, seen.priority), (id, 3));
    assert_eq!(seen.public_state, PublicState::Waiting);
    assert_eq!(seen.blocking_reason, BlockingReason::WaitingForWorker);
    assert_eq!((seen.current_attempt, seen.current_lease), (None, None));
    assert_eq!((seen.created_at, seen.last_mutation_at), (w.now(), w.now()));
    assert_eq!((seen.started_at, seen.completed_at), (None, None));
    assert_eq!((seen.tags, seen.counts.attempts), (tags, 0));
}

/// What a person sees of work that runs, was given back, and is over.
pub async fn a_snapshot_follows_the_execution(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.pass(5);
    w.renew(id, fence).await.expect("it is held");
    let lease = w.snapshot(id).await.current_lease.expect("it is held");
    assert_eq!((lease.fence, lease.worker), (fence, worker("w1")));
    assert_eq!(lease.last_heartbeat_at, w.now());
    w.delay(id, fence, w.now().plus(9)).await.expect("it is held");
    let seen = w.snapshot(id).await;
    assert_eq!(seen.public_state, PublicState::Delayed);
    assert_eq!(seen.current_attempt.map(|a| a.index), Some(0));
    assert_eq!(seen.current_lease, None);
    w.pass(9);
    let fence = w.take(id).await.leased.fence;
    w.fail(id, fence).await.expect("it is held");
    let seen = w.snapshot(id).await;
    assert_eq!(seen.public_state, PublicState::Failed);
    assert_eq!(seen.ended_because.as_deref(), Some("it broke"));
    assert_eq!(seen.completed_at, Some(w.now()));
    assert_eq!(seen.current_attempt.map(|a| a.index), Some(0));
}

/// Views are of one moment: they agree with each other.
pub async fn the_views_agree(w: Arc<World>) {
    let (id, fence) = w.running(retrying(2, 50)).await;
    w.fail(id, fence).await.expect("it is held");
    w.pass(20);
    let x = w.get(id).await;
    let info = ExecutionInfo::of(&x, w.now());
    let seen = ExecutionSnapshot::of(&x, w.now());
    assert_eq!(info.state_vector, w.vector(id).await);
    assert_eq!(info.state_vector.public_state, seen.public_state);
    assert_eq!(info.state_vector.blocking_reason, seen.blocking_reason);
    assert_eq!((info.created_at, info.started_at), (seen.created_at, seen.started_at));
    assert_eq!(info.total_attempt_count, seen.counts.attempts);
}

/// The number of attempts counts, and the index of the current one follows it.
pub async fn attempts_are_counted(w: Arc<World>) {
    let id = w.create_with(retrying(2, 0)).await;
    for total in 1..=3 {
        let fence = w.take(id).await.leased.fence;
        let info = ExecutionInfo::of(&w.get(id).await, w.now());
        assert_eq!(info.total_attempt_count, total);
        assert_eq!(info.current_attempt_index, total - 1);
        assert_eq!(fence.attempt_index, total - 1);
        w.fail(id, fence).await.expect("it is held");
    }
}

/// History is complete: attempts that are over, then the one on the execution.
pub async fn the_history_is_every_attempt_once(w: Arc<World>) {
    let id = w.create_with(retrying(1, 0)).await;
    let fence = w.take(id).await.leased.fence;
    w.fail(id, fence).await.expect("it is held");
    w.take_as(id, "w2").await;
    w.revoke(id).await.expect("it is held");
    let fence = w.take_as(id, "w3").await.leased.fence;
    w.complete(id, fence).await.expect("it is held");
    let over = w.attempts(id).await.into_iter().map(AttemptLine::from);
    let lines: Vec<_> = over.chain(AttemptLine::current(&w.get(id).await)).collect();
    let told = lines.iter().map(|l| (l.attempt.index, l.attempt.kind, l.outcome));
    let expected = [
        (0, AttemptKind::Initial, Some(AttemptOutcome::Failure)),
        (1, AttemptKind::Retry, Some(AttemptOutcome::Interrupted)),
        (2, AttemptKind::Reclaim, Some(AttemptOutcome::Success)),
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let workers = lines.iter().map(|l| l.attempt.worker.instance.to_string());
    assert_eq!(workers.collect::<Vec<_>>(), ["w1", "w2", "w3"]);
}

/// A long history is read page by page, oldest first.
pub async fn a_history_is_read_page_by_page(w: Arc<World>) {
    let id = w.create_with(retrying(5, 0)).await;
    for _ in 0..5 {
        let fence = w.take(id).await.leased.fence;
        w.fail(id, fence).await.expect("it is held");
    }
    let (mut seen, mut after) = (Vec::new(), None);
    for size in [2, 2, 1] {
        let page = Page { after, limit: 2 };
        let listing = w.page(&Query::Attempts(id), &page).await;
        let Rows::Attempts(attempts) = listing.rows else {
            panic!("attempts were asked for");
        };
        assert_eq!(attempts.len(), size);
        seen.extend(attempts.iter().map(|a| a.index));
        after = listing.next;
    }
    assert_eq!((seen, after), (vec![0, 1, 2, 3, 4], None));
}
