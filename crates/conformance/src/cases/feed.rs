//! The feed: what happened, in order, for whoever wants to know.

use std::sync::Arc;

use ff_core::ExecutionId;
use ff_core::backend::{Duty, Interest};
use ff_core::decide::create::Create;
use ff_core::event::{Cursor, EventKind, EventName, FeedEvent, Filter};
use ff_core::ids::Partition;
use ff_core::limits::{PAGE_MAX, PARTITIONS};
use ff_core::state::TerminalOutcome;
use ff_core::text::Kind;
use serde_json::json;

use super::calls::{cancellation, progress, retrying, tags};
use crate::world::{World, lane, namespace};

/// Creates and cancels: one event.
async fn cancelled(w: &World, draft: Create) -> ExecutionId {
    let id = w.create(draft).await;
    w.cancel(id).await.expect("it waits");
    id
}

/// Page by page, every event once, in the order in which it happened.
pub async fn pages_give_every_event_once(w: Arc<World>) {
    let mut expected = Vec::new();
    for _ in 0..5 {
        expected.push(cancelled(&w, w.draft()).await);
    }
    let (mut seen, mut at) = (Vec::new(), Cursor::Start);
    for size in [2, 2, 1, 0] {
        let page = w.feed(&at, &Filter::default(), 2).await;
        assert_eq!(page.events.len(), size);
        seen.extend(page.events.iter().map(|e| e.event.subject()));
        at = page.next;
    }
    assert_eq!(seen, expected);
}

/// A reader may stop after any event and go on from there.
pub async fn the_cursor_of_an_event_continues_after_it(w: Arc<World>) {
    for _ in 0..3 {
        cancelled(&w, w.draft()).await;
    }
    // The same event may have another cursor when it is read again; nothing else differs.
    let told = |all: &[FeedEvent]| -> Vec<_> {
        all.iter().map(|e| (e.event.clone(), e.execution_kind.clone(), e.tags.clone())).collect()
    };
    let all = w.feed(&Cursor::Start, &Filter::default(), 10).await.events;
    assert_eq!(all.len(), 3);
    for (n, event) in all.iter().enumerate() {
        let rest = w.feed(&event.cursor, &Filter::default(), 10).await.events;
        assert_eq!(told(&rest), told(&all[n + 1..]));
    }
}

/// A cursor is text to whoever keeps it.
pub async fn a_cursor_survives_as_text(w: Arc<World>) {
    let empty = w.store.backend.tail().await.expect("the store works");
    cancelled(&w, w.draft()).await;
    cancelled(&w, w.draft()).await;
    let tail = w.store.backend.tail().await.expect("the store works");
    let page = w.feed(&Cursor::Start, &Filter::default(), 1).await;
    for cursor in [Cursor::Start, empty, tail, page.events[0].cursor.clone(), page.next] {
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
}

/// Writing between two reads neither hides nor repeats anything.
pub async fn reading_while_writing_misses_nothing(w: Arc<World>) {
    let (mut expected, mut seen) = (Vec::new(), Vec::new());
    let mut at = Cursor::Start;
    for _ in 0..6 {
        expected.push(cancelled(&w, w.draft()).await);
        expected.push(cancelled(&w, w.draft()).await);
        let page = w.feed(&at, &Filter::default(), 1).await;
        seen.extend(page.events.iter().map(|e| e.event.subject()));
        at = page.next;
    }
    let rest = w.feed(&at, &Filter::default(), 100).await.events;
    seen.extend(rest.iter().map(|e| e.event.subject()));
    assert_eq!(seen, expected);
}

/// Who starts at the tail hears only what is new.
pub async fn the_tail_is_where_new_events_begin(w: Arc<World>) {
    let backend = &w.store.backend;
    let empty = backend.tail().await.expect("the store works");
    assert!(w.feed(&empty, &Filter::default(), 10).await.events.is_empty());
    cancelled(&w, w.draft()).await;
    let tail = backend.tail().await.expect("the store works");
    assert!(w.feed(&tail, &Filter::default(), 10).await.events.is_empty());
    let new = cancelled(&w, w.draft()).await;
    let heard = w.feed(&tail, &Filter::default(), 10).await.events;
    assert_eq!(heard.len(), 1);
    assert_eq!(heard[0].event.subject(), new);
    assert_eq!(w.feed(&empty, &Filter::default(), 10).await.events.len(), 2);
}

/// A reader may want some kinds of events only.
pub async fn a_filter_by_kind_lets_only_those_through(w: Arc<World>) {
    let (id, fence) = w.running(retrying(1, 0)).await;
    w.fail(id, fence).await.expect("it is held");
    w.hold(id).await.expect("it waits");
    w.cancel(id).await.expect("it waits");
    let heard = async |kinds: &[EventName]| {
        let filter = Filter { kinds: kinds.to_vec(), ..Filter::default() };
        let page = w.feed(&Cursor::Start, &filter, 10).await;
        page.events.iter().map(|e| e.event.kind.name()).collect::<Vec<_>>()
    };
    assert_eq!(heard(&[EventName::Held]).await, [EventName::Held]);
    let two = [EventName::Completion, EventName::AttemptFailed];
    assert_eq!(heard(&two).await, [EventName::AttemptFailed, EventName::Completion]);
    assert_eq!(heard(&[]).await.len(), 3);
    assert!(heard(&[EventName::Replayed]).await.is_empty());
}

/// Tenants hear of their own.
pub async fn a_filter_by_namespace_lets_only_it_through(w: Arc<World>) {
    let mine = cancelled(&w, w.draft()).await;
    let theirs = Create { namespace: namespace("other"), ..w.draft() };
    let theirs = cancelled(&w, theirs).await;
    for (name, id) in [("test", mine), ("other", theirs)] {
        let namespace = Some(namespace(name));
        let filter = Filter { namespace, ..Filter::default() };
        assert_eq!(w.heard(&filter).await, [id]);
    }
}

/// Lanes are heard apart.
pub async fn a_filter_by_lane_lets_only_it_through(w: Arc<World>) {
    cancelled(&w, w.draft()).await;
    let lane = lane("mail");
    let id = cancelled(&w, Create { lane: lane.clone(), ..w.draft() }).await;
    let filter = Filter { lane: Some(lane), ..Filter::default() };
    assert_eq!(w.heard(&filter).await, [id]);
}

/// One execution can be followed on its own.
pub async fn a_filter_by_execution_lets_only_it_through(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    cancelled(&w, w.draft()).await;
    w.complete(id, fence).await.expect("it is held");
    let filter = Filter { execution: Some(id), ..Filter::default() };
    assert_eq!(w.heard(&filter).await, [id]);
    let execution = Some(w.id());
    assert!(w.heard(&Filter { execution, ..Filter::default() }).await.is_empty());
}

/// A tag selects what carries it now, key and value.
pub async fn a_filter_by_tag_lets_only_what_carries_it_through(w: Arc<World>) {
    let tagged = |value: &str| Create { tags: tags(&[("app.run", value)]), ..w.draft() };
    let mine = cancelled(&w, tagged("1")).await;
    cancelled(&w, tagged("2")).await;
    let plain = cancelled(&w, w.draft()).await;
    let tag = Some(("app.run".to_owned(), "1".to_owned()));
    let filter = Filter { tag, ..Filter::default() };
    assert_eq!(w.heard(&filter).await, [mine]);
    w.tag(plain, "app.run", "1").await.expect("it exists");
    w.tag(mine, "app.run", "3").await.expect("it exists");
    assert_eq!(w.heard(&filter).await, [plain]);
}

/// Everything given must match.
pub async fn filters_combine(w: Arc<World>) {
    let there = || Create { lane: lane("mail"), namespace: namespace("other"), ..w.draft() };
    let wanted = cancelled(&w, Create { tags: tags(&[("a.b", "c")]), ..there() }).await;
    cancelled(&w, there()).await;
    cancelled(&w, Create { lane: lane("x"), tags: tags(&[("a.b", "c")]), ..there() }).await;
    let filter = Filter {
        kinds: vec![EventName::Completion],
        namespace: Some(namespace("other")),
        lane: Some(lane("mail")),
        execution: None,
        flow: None,
        tag: Some(("a.b".to_owned(), "c".to_owned())),
    };
    assert_eq!(w.heard(&filter).await, [wanted]);
    let kinds = vec![EventName::Unheld];
    assert!(w.heard(&Filter { kinds, ..filter }).await.is_empty());
}

/// A reader of rare events does not read the others again and again.
pub async fn a_filtered_page_moves_past_what_it_left_out(w: Arc<World>) {
    for _ in 0..3 {
        cancelled(&w, w.draft()).await;
    }
    let kinds = vec![EventName::Held];
    let filter = Filter { kinds, ..Filter::default() };
    let page = w.feed(&Cursor::Start, &filter, 10).await;
    assert!(page.events.is_empty());
    assert!(w.feed(&page.next, &Filter::default(), 10).await.events.is_empty());
    let id = w.create(w.draft()).await;
    w.hold(id).await.expect("it waits");
    assert_eq!(w.feed(&page.next, &filter, 10).await.events.len(), 1);
}

/// Every way to end is one completion event that says where and how.
pub async fn every_ending_is_one_completion_with_its_scope(w: Arc<World>) {
    let deadline_at = Some(w.now());
    let expired = w.create(Create { deadline_at, ..w.draft() }).await;
    w.tick(Duty::Deadline).await;
    let done = w.finished(json!({})).await;
    let (failed, fence) = w.running(json!({})).await;
    w.fail(failed, fence).await.expect("it is held");
    let cancelled = cancelled(&w, w.draft()).await;
    let (lost, _) = w.running(json!({"max_reclaim_count": 0})).await;
    w.revoke(lost).await.expect("it is held");
    let kinds = vec![EventName::Completion];
    let filter = Filter { kinds, ..Filter::default() };
    let heard = w.feed(&Cursor::Start, &filter, 10).await.events;
    let ends = heard.iter().map(|e| match &e.event.kind {
        EventKind::Completion { outcome, .. } => (e.event.subject(), *outcome),
        other => panic!("completions were asked for, not {other:?}"),
    });
    let expected = [
        (expired, TerminalOutcome::Expired),
        (done, TerminalOutcome::Success),
        (failed, TerminalOutcome::Failed),
        (cancelled, TerminalOutcome::Cancelled),
        (lost, TerminalOutcome::Failed),
    ];
    assert_eq!(ends.collect::<Vec<_>>(), expected);
    assert!(heard.iter().all(|e| e.event.namespace == namespace("test")));
    assert!(heard.iter().all(|e| e.event.lane == Some(lane("default"))));
}

/// An event comes with what its reader would look up next.
pub async fn an_event_carries_kind_and_tags(w: Arc<World>) {
    let kind = Kind::new("invoice").expect("a valid kind");
    let tags = tags(&[("app.customer", "7")]);
    let draft = Create { kind: kind.clone(), tags: tags.clone(), ..w.draft() };
    cancelled(&w, draft).await;
    let event = w.feed(&Cursor::Start, &Filter::default(), 1).await.events.remove(0);
    assert_eq!((event.execution_kind, event.tags), (Some(kind), tags));
    assert_eq!(event.event.at, w.now());
}

/// What happens all the time is not news.
pub async fn the_ordinary_course_leaves_one_event(w: Arc<World>) {
    let (id, fence) = w.running(json!({})).await;
    w.release(id, fence).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.renew(id, fence).await.expect("it is held");
    w.run(progress(id, fence, 10)).await.expect("it is held");
    w.delay(id, fence, w.now()).await.expect("it is held");
    let fence = w.take(id).await.leased.fence;
    w.tag(id, "app.a", "b").await.expect("it exists");
    w.complete(id, fence).await.expect("it is held");
    assert_eq!(w.event_names(id).await, ["completion"]);
}

/// One feed holds the events of every partition.
pub async fn the_feed_covers_every_partition(w: Arc<World>) {
    let every = (0..i64::from(PARTITIONS)).filter_map(Partition::new);
    let ids: Vec<_> = every.map(|p| ExecutionId::from_parts(p, w.uuid())).collect();
    let create = |id: &ExecutionId| Create { id: *id, ..w.draft() }.into();
    w.batch(ids.iter().map(create).collect()).await;
    w.batch(ids.iter().map(|id| cancellation(*id).into()).collect()).await;
    assert_eq!(w.heard(&Filter::default()).await, ids);
}

/// A page has a limit, asked for or not; a page of nothing is a page.
pub async fn a_page_of_events_is_bounded(w: Arc<World>) {
    let ids: Vec<_> = (0..=PAGE_MAX).map(|_| w.id()).collect();
    for ids in ids.chunks(500) {
        let create = |id: &ExecutionId| Create { id: *id, ..w.draft() }.into();
        w.batch(ids.iter().map(create).collect()).await;
        w.batch(ids.iter().map(|id| cancellation(*id).into()).collect()).await;
    }
    let none = w.feed(&Cursor::Start, &Filter::default(), 0).await;
    assert!(none.events.is_empty());
    let page = w.feed(&none.next, &Filter::default(), u32::MAX).await;
    assert_eq!(page.events.len(), 1_000);
    assert_eq!(page.events[0].event.subject(), ids[0], "a page of nothing passes nothing");
    let rest = w.feed(&page.next, &Filter::default(), u32::MAX).await;
    assert_eq!(rest.events.len(), 1);
}

/// Subscribers are woken by what happens.
pub async fn an_event_wakes_a_waiting_reader(w: Arc<World>) {
    let id = w.create(w.draft()).await;
    let before = w.store.backend.generation(Interest::Events);
    w.cancel(id).await.expect("it waits");
    w.woken(Interest::Events, before).await;
    assert_ne!(w.store.backend.generation(Interest::Events), before);
}
