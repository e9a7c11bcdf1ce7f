//! Batches: commands apply in order, see each other, and answer each for itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use ff_core::command::Reply;
use ff_core::decide::claim::{Claim, ClaimKind};
use ff_core::decide::create::{Create, Created};
use ff_core::decide::hold::Hold;
use ff_core::decide::priority::ChangePriority;
use ff_core::decide::retention::Trim;
use ff_core::decide::tags::{Edit, SetTags};
use ff_core::error::Code;
use ff_core::event::Filter;
use ff_core::execution::{Fence, first_epoch};
use ff_core::fold::BlobRef;
use ff_core::limits::BATCH_MAX;
use ff_core::policy::FailureClass;
use ff_core::query::{Query, Rows};
use ff_core::state::PublicState;
use ff_core::{Command, ExecutionId, Policy};
use serde_json::{Value, json};

use super::calls::{cancellation, completion, failure, progress, retrying, tags};
use crate::world::{World, code, worker};

/// The fence of the first lease on what is created now.
fn first(w: &World) -> Fence {
    Fence { attempt_index: 0, lease_epoch: first_epoch(w.now()) + 1 }
}

fn drafted(w: &World, policy: &Value) -> Create {
    let policy = Policy::parse(policy).expect("a valid policy");
    Create { policy, ..w.draft() }
}

async fn codes(w: &World, batch: Vec<Command>) -> Vec<Option<Code>> {
    let outcomes = w.batch(batch).await;
    outcomes.into_iter().map(|o| o.err().map(|r| r.code)).collect()
}

/// A whole life in one batch is the same life.
pub async fn commands_on_one_row_see_each_other(w: Arc<World>) {
    let draft = w.draft();
    let id = draft.id;
    let batch = vec![
        draft.into(),
        w.naming(id).into(),
        progress(id, first(&w), 50).into(),
        completion(id, first(&w), b"done").into(),
    ];
    assert_eq!(codes(&w, batch).await, [None, None, None, None]);
    assert_eq!(w.state(id).await, PublicState::Completed);
    assert_eq!(w.event_names(id).await, ["completion"]);
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await.as_deref(), Some(&b"done"[..]));
    assert_eq!(w.get(id).await.counts.attempts, 1);
    assert!(w.claim_one().await.is_none());
}

/// A refused command is refused alone.
pub async fn a_rejected_command_leaves_no_trace(w: Arc<World>) {
    let (before, after) = (w.draft(), w.draft());
    let (a, b) = (before.id, after.id);
    let clash = Create { priority: 1, ..before.clone() };
    let far = Create { delay_until: Some(ff_core::Millis(i64::MAX)), ..w.draft() };
    let absent = far.id;
    let batch = vec![
        before.into(),
        completion(a, first(&w), b"never").into(),
        clash.into(),
        far.into(),
        after.into(),
    ];
    let stale = Some(Code::StaleLease);
    let conflict = Some(Code::ExecutionIdConflict);
    let invalid = Some(Code::InvalidInput);
    assert_eq!(codes(&w, batch).await, [None, stale, conflict, invalid, None]);
    assert_eq!(w.find(absent).await, None);
    assert_eq!((w.get(a).await.version, w.get(a).await.priority.get()), (1, 0));
    assert_eq!(w.blob(BlobRef::Result(a, 0)).await, None);
    let claimed: BTreeSet<_> = w.take_ids(10).await.into_iter().collect();
    assert_eq!(claimed, [a, b].into());
}

/// Answers come in the order of the questions, whatever order rows are kept in.
pub async fn outcomes_are_in_the_order_of_the_commands(w: Arc<World>) {
    let mut drafts: Vec<_> = (0..50).map(|_| w.draft()).collect();
    drafts.sort_by_key(|draft| std::cmp::Reverse(draft.id));
    let asked: Vec<_> = drafts.iter().map(|draft| draft.id).collect();
    let outcomes = w.batch(drafts.into_iter().map(Command::from).collect()).await;
    let answered: Vec<ExecutionId> = outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Ok(Reply::Create(created)) => created.execution_id(),
            other => panic!("a creation is answered with a creation, not {other:?}"),
        })
        .collect();
    assert_eq!(answered, asked);
}

/// A row touched by everyone is decided for each and written as the last one left it.
pub async fn one_hot_row_takes_a_whole_batch(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let before = w.get(id).await.version;
    let reports = (0..200).map(|n| progress(id, fence, n % 101).into());
    let outcomes = w.batch(reports.collect()).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let x = w.get(id).await;
    assert_eq!(x.version, before + 200);
    assert_eq!(x.progress.clone().and_then(|p| p.percent), Some(98));
}

/// Edits of one set add up.
pub async fn tag_edits_in_one_batch_add_up(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let edit = |set: &[(&str, &str)], remove: &[&str]| {
        let remove = remove.iter().map(|key| (*key).to_owned()).collect();
        let edit = Edit { set: tags(set), remove, version: None };
        Command::from(SetTags { id, edit })
    };
    let batch = vec![
        edit(&[("a.a", "1"), ("a.b", "1")], &[]),
        edit(&[("a.c", "1")], &["a.a"]),
        edit(&[("a.b", "2")], &[]),
    ];
    let counts = [2, 2, 2].map(|count| Ok(Reply::SetTags(count)));
    assert_eq!(w.batch(batch).await, counts);
    assert_eq!(w.get(id).await.tags, tags(&[("a.b", "2"), ("a.c", "1")]));
}

/// Made and undone at once, it is never claimable.
pub async fn created_and_cancelled_at_once_is_never_claimable(w: Arc<World>) {
    let draft = w.draft();
    let id = draft.id;
    let batch = vec![draft.into(), cancellation(id).into(), w.naming(id).into()];
    let refused = Some(Code::ExecutionNotLeaseable);
    assert_eq!(codes(&w, batch).await, [None, None, refused]);
    assert!(w.claim_one().await.is_none());
    assert_eq!(w.event_names(id).await, ["completion"]);
}

/// A failure and the next attempt fit in one batch.
pub async fn failed_and_claimed_again_in_one_batch(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    let fail = failure(id, fence, FailureClass::Transient, "oops");
    let mut outcomes = w.batch(vec![fail.into(), w.naming(id).into()]).await;
    let Some(Ok(Reply::Claim(leased))) = outcomes.pop() else {
        panic!("it was claimable: {outcomes:?}");
    };
    assert_eq!((leased.kind, leased.fence.attempt_index), (ClaimKind::Retried, 1));
    assert_eq!(w.attempts(id).await.len(), 1);
    assert_eq!(w.complete(id, leased.fence).await, Ok(()));
}

/// Two completions are one ending, and the first result stays.
pub async fn two_completions_in_one_batch_are_one_ending(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    let batch =
        vec![completion(id, fence, b"first").into(), completion(id, fence, b"second").into()];
    assert_eq!(codes(&w, batch).await, [None, Some(Code::ResultConflict)]);
    assert_eq!(w.event_names(id).await, ["completion"]);
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await.as_deref(), Some(&b"first"[..]));
}

/// An operator's hold is in force for the rest of the batch.
pub async fn held_and_claimed_in_one_batch_is_held(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let reason = String::new();
    let batch = vec![
        ChangePriority { id, priority: 5, version: None }.into(),
        Hold { id, reason, version: None }.into(),
        w.naming(id).into(),
        ChangePriority { id, priority: 9, version: None }.into(),
    ];
    let refused = Some(Code::ExecutionNotLeaseable);
    let not_eligible = Some(Code::ExecutionNotEligible);
    assert_eq!(codes(&w, batch).await, [None, None, refused, not_eligible]);
    assert_eq!(w.event_names(id).await, ["priority_changed", "held"]);
    assert!(w.claim_one().await.is_none());
}

/// What is made, done and forgotten in one batch leaves nothing behind.
pub async fn a_life_and_its_removal_in_one_batch(w: Arc<World>) {
    let draft = drafted(&w, &json!({"retention_ms": 0}));
    let id = draft.id;
    let batch = vec![
        Create { tags: tags(&[("a.b", "c")]), ..draft }.into(),
        w.naming(id).into(),
        completion(id, first(&w), b"done").into(),
        Trim { id }.into(),
    ];
    let outcomes = w.batch(batch).await;
    assert_eq!(outcomes[3], Ok(Reply::Trim(true)));
    assert_eq!(w.find(id).await, None);
    let tables = (w.store.dump)();
    assert!(tables.blobs.is_empty() && tables.events.is_empty() && tables.timers.is_empty());
    assert!(tables.tags.is_empty() && tables.ready.is_empty());
}

/// An id removed in a batch is free for the rest of it, and starts from nothing.
pub async fn removed_and_created_again_in_one_batch(w: Arc<World>) {
    let old = drafted(&w, &json!({"retention_ms": 0}));
    let id = w.create(old.clone()).await;
    let fence = w.take(id).await.leased.fence;
    w.complete(id, fence).await.expect("it is held");
    let new = Create { priority: 5, tags: tags(&[("a.b", "c")]), ..old };
    let outcomes = w.batch(vec![Trim { id }.into(), new.into()]).await;
    let public_state = PublicState::Waiting;
    let execution_id = id;
    let created = Created::Created { execution_id, public_state };
    assert_eq!(outcomes, [Ok(Reply::Trim(true)), Ok(Reply::Create(created))]);
    let x = w.get(id).await;
    assert_eq!((x.version, x.epoch, x.priority.get()), (1, first_epoch(w.now()), 5));
    assert_eq!(w.blob(BlobRef::Result(id, 0)).await, None);
    assert_eq!(w.blob(BlobRef::Input(id)).await.as_deref(), Some(&b"in"[..]));
    assert!(w.event_names(id).await.is_empty());
    w.take(id).await;
}

/// The feed keeps the order in which a batch did things.
pub async fn events_keep_the_order_of_the_batch(w: Arc<World>) {
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(w.create(w.draft()).await);
    }
    ids.sort_by_key(|id| std::cmp::Reverse(*id));
    w.batch(ids.iter().map(|id| cancellation(*id).into()).collect()).await;
    assert_eq!(w.heard(&Filter::default()).await, ids);
}

/// Nothing to do is nothing done.
pub async fn an_empty_batch_answers_nothing(w: Arc<World>) {
    let before = w.rows();
    assert!(w.batch(Vec::new()).await.is_empty());
    assert_eq!(w.rows(), before);
}

/// The largest batch is a batch like another.
pub async fn the_largest_batch_is_taken_whole(w: Arc<World>) {
    let batch: Vec<Command> = (0..BATCH_MAX).map(|_| w.draft().into()).collect();
    let outcomes = w.batch(batch).await;
    assert_eq!(outcomes.iter().filter(|o| o.is_ok()).count(), 1_000);
    assert_eq!(w.take_ids(1_000).await.len(), 1_000);
    let Rows::Counts(counts) = w.list(&Query::Counts, 10).await else {
        panic!("counts were asked for");
    };
    assert_eq!((counts.len(), counts[0].count), (1, 1_000));
}

/// Three workers name the same execution: the first has it.
pub async fn the_first_to_claim_by_name_has_it(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let claim = |name: &str| -> Command {
        let worker = worker(name);
        Claim { worker, ..w.naming(id) }.into()
    };
    let batch = vec![claim("w1"), claim("w2"), claim("w1")];
    let refused = Some(Code::ExecutionNotLeaseable);
    assert_eq!(codes(&w, batch).await, [None, refused, refused]);
    assert_eq!(w.get(id).await.fence(), first(&w));
    assert_eq!(code(w.claim_by_name(id).await), Code::ExecutionNotLeaseable);
}
