//! Replaying: a finished execution runs again, and its past stays.

use std::sync::Arc;

use ff_core::backend::Duty;
use ff_core::command::Reply;
use ff_core::decide::Failed;
use ff_core::decide::claim::ClaimKind;
use ff_core::decide::create::Create;
use ff_core::decide::retention::Trim;
use ff_core::error::Code;
use ff_core::event::EventKind;
use ff_core::execution::{AttemptKind, AttemptOutcome};
use ff_core::fold::BlobRef;
use ff_core::limits::REPLAYS_DEFAULT;
use ff_core::state::{AttemptState, PublicState, TerminalOutcome};
use serde_json::json;

use super::calls::{SIZES, completion, progress, retrying};
use crate::world::{World, code};

/// It waits for a worker again, as a new attempt.
pub async fn a_replay_is_a_new_attempt(w: Arc<World>) {
    let id = w.finished(json!({})).await;
    assert_eq!(w.replay(id).await, Ok(()));
    let vector = w.vector(id).await;
    assert_eq!(vector.public_state, PublicState::Waiting);
    assert_eq!(vector.attempt_state, AttemptState::PendingReplayAttempt);
    assert_eq!(vector.terminal_outcome, None);
    assert_eq!(w.snapshot(id).await.completed_at, None);
    let leased = w.take_as(id, "w2").await.leased;
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Replayed, 1));
    assert_eq!(w.active(id).await.attempt.kind, AttemptKind::Replay);
    assert_eq!(w.get(id).await.counts.replays, 1);
}

/// Any ending can be replayed, a cancellation included.
pub async fn every_ending_can_be_replayed(w: Arc<World>) {
    let done = w.finished(json!({})).await;
    let (failed, fence) = w.running(json!({})).await;
    w.fail(failed, fence).await.expect("it is held");
    let cancelled = w.create(w.draft()).await;
    w.cancel(cancelled).await.expect("it waits");
    let (stopped, _) = w.running(json!({})).await;
    w.cancel(stopped).await.expect("it is held");
    let deadline_at = Some(w.now());
    let expired = w.create(Create { deadline_at, ..w.draft() }).await;
    w.tick(Duty::Deadline).await;
    for id in [done, failed, cancelled, stopped, expired] {
        assert_eq!(w.replay(id).await, Ok(()));
        let leased = w.take(id).await.leased;
        assert_eq!(leased.kind, ClaimKind::Replayed);
        assert_eq!(w.complete(id, leased.fence).await, Ok(()));
    }
}

/// Earlier attempts are history, not overwritten.
pub async fn a_replay_keeps_history(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    w.fail(id, fence).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.complete(id, fence).await.expect("it is held");
    w.replay(id).await.expect("it has ended");
    let kept = w.attempts(id).await;
    let outcomes: Vec<_> = kept.iter().map(|a| (a.index, a.outcome)).collect();
    assert_eq!(outcomes, [(0, AttemptOutcome::Failure), (1, AttemptOutcome::Success)]);
    let names = w.event_names(id).await;
    assert_eq!(names, ["attempt_failed", "completion", "replayed"]);
    let replayed =
        EventKind::Replayed { outcome: TerminalOutcome::Success, reason: "once more".to_owned() };
    assert_eq!(w.events(id).await[2].kind, replayed);
}

/// The current result is that of the attempt which ended it, and none until then.
pub async fn a_replay_has_no_result_until_it_succeeds(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.run(completion(id, fence, b"old")).await.expect("it is held");
    w.replay(id).await.expect("it has ended");
    assert_eq!(w.snapshot(id).await.public_state, PublicState::Waiting);
    assert_eq!(w.blob(BlobRef::Result(id, 1)).await, None);
    let fence = w.take(id).await.leased.fence;
    w.run(completion(id, fence, b"new")).await.expect("it is held");
    assert_eq!(w.ending(id).await.attempt.map(|a| a.index), Some(1));
    assert_eq!(w.blob(BlobRef::Result(id, 1)).await.as_deref(), Some(&b"new"[..]));
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await.as_deref(), Some(&b"old"[..]));
}

/// Small or large, each attempt keeps its own.
pub async fn results_of_any_size_outlive_a_replay(w: Arc<World>) {
    for (before, after) in SIZES.into_iter().zip(SIZES.into_iter().rev()) {
        let (id, fence) = w.running(json!({})).await;
        w.run(completion(id, fence, &vec![1; before])).await.expect("it is held");
        w.replay(id).await.expect("it has ended");
        let fence = w.take(id).await.leased.fence;
        w.run(completion(id, fence, &vec![2; after])).await.expect("it is held");
        let kept = [w.blob(BlobRef::Result(id, 0)).await, w.blob(BlobRef::Result(id, 1)).await];
        assert_eq!(kept, [Some(vec![1; before].into()), Some(vec![2; after].into())]);
    }
}

/// A replayed execution has its retries again.
pub async fn a_replay_counts_retries_from_zero(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    w.fail(id, fence).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.run(progress(id, fence, 90)).await.expect("it is held");
    assert_eq!(w.fail(id, fence).await, Ok(Failed::TerminalFailed));
    w.replay(id).await.expect("it has ended");
    assert_eq!(w.get(id).await.counts.retries, 0);
    assert_eq!(w.get(id).await.progress, None);
    let fence = w.take(id).await.leased.fence;
    let failed = w.fail(id, fence).await;
    assert!(matches!(failed, Ok(Failed::RetryScheduled { .. })), "{failed:?}");
}

/// A relative deadline starts again, so a late replay does not expire at once.
pub async fn a_replay_starts_a_relative_deadline_again(w: Arc<World>) {
    let policy = json!({"timeout_policy": {"execution_deadline_ms": 1_000}});
    let id = w.finished(policy).await;
    w.pass(5_000);
    w.replay(id).await.expect("it has ended");
    assert_eq!(w.get(id).await.deadline_at, Some(w.now().plus(1_000)));
    assert!(w.tick(Duty::Deadline).await.is_empty());
    w.pass(1_000);
    w.tick(Duty::Deadline).await;
    assert_eq!(w.state(id).await, PublicState::Expired);
}

/// An absolute deadline stays while it lies ahead and is dropped once passed.
pub async fn a_replay_keeps_only_a_deadline_that_lies_ahead(w: Arc<World>) {
    let deadline_at = Some(w.now().plus(1_000));
    let id = w.create(Create { deadline_at, ..w.draft() }).await;
    w.cancel(id).await.expect("it waits");
    w.replay(id).await.expect("it has ended");
    assert_eq!(w.get(id).await.deadline_at, deadline_at);
    w.pass(1_000);
    w.tick(Duty::Deadline).await;
    w.replay(id).await.expect("it has ended");
    assert_eq!(w.get(id).await.deadline_at, None);
    assert!(w.tick(Duty::Deadline).await.is_empty());
    w.take(id).await;
}

/// Replays are counted, and end.
pub async fn replays_run_out(w: Arc<World>) {
    for (policy, max) in [
        (json!({"max_replay_count": 1}), 1),
        (json!({}), REPLAYS_DEFAULT),
        (json!({"max_replay_count": 0}), 0),
    ] {
        let id = w.finished(policy).await;
        for _ in 0..max {
            w.replay(id).await.expect("one is left");
            w.cancel(id).await.expect("it waits");
        }
        let before = w.rows();
        assert_eq!(code(w.replay(id).await), Code::MaxReplaysExhausted);
        assert_eq!(w.rows(), before);
    }
}

/// What has not ended has nothing to replay.
pub async fn only_the_finished_is_replayed(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    assert_eq!(code(w.replay(id).await), Code::ExecutionNotTerminal);
    let fence = w.take(id).await.leased.fence;
    assert_eq!(code(w.replay(id).await), Code::ExecutionNotTerminal);
    w.delay(id, fence, w.now().plus(10)).await.expect("it is held");
    assert_eq!(code(w.replay(id).await), Code::ExecutionNotTerminal);
}

/// Two operators who replay at once have replayed once.
pub async fn a_replay_is_repeatable_until_it_is_claimed(w: Arc<World>) {
    let id = w.finished(json!({})).await;
    w.replay(id).await.expect("it has ended");
    assert_eq!(w.replay(id).await, Ok(()));
    assert_eq!(w.get(id).await.counts.replays, 1);
    assert_eq!(w.event_names(id).await, ["completion", "replayed"]);
    w.take(id).await;
    assert_eq!(code(w.replay(id).await), Code::ExecutionNotTerminal);
}

/// Retention does not remove what runs again.
pub async fn a_replay_stops_the_retention_clock(w: Arc<World>) {
    let id = w.finished(json!({"retention_ms": 1_000})).await;
    w.pass(1_000);
    let planned = w.due(Duty::Retention, 10).await.commands;
    assert_eq!(planned.len(), 1);
    w.replay(id).await.expect("it is still there");
    for command in planned {
        assert_eq!(w.send(command).await, Ok(Reply::Trim(false)));
    }
    assert!(w.tick(Duty::Retention).await.is_empty());
    let fence = w.take(id).await.leased.fence;
    w.complete(id, fence).await.expect("it is held");
    w.pass(999);
    assert_eq!(w.run(Trim { id }).await, Ok(false));
    w.pass(1);
    assert_eq!(w.run(Trim { id }).await, Ok(true));
}
