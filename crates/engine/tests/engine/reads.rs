//! Reads, waiting for an end, and consumers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ff_conformance::world::waits::single;
use ff_core::Code;
use ff_core::condition::ResumeCondition;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::event::{Cursor, EventName, Filter};
use ff_core::query::{Page, Search};
use ff_core::state::{AttemptState, BlockingReason, PublicState};
use ff_core::text::ConsumerName;
use ff_core::view::ConsumerSnapshot;
use ff_engine::{Engine, Error};
use serde_json::json;

use crate::slow::slow;
use crate::world;

#[tokio::test]
async fn every_read_of_a_missing_execution_says_so() {
    let (engine, world) = world();
    let id = world.id();
    assert_eq!(engine.describe_execution(id).await.unwrap(), None);
    assert_eq!(engine.read_execution_info(id).await.unwrap(), None);
    assert_eq!(engine.read_execution_state(id).await.unwrap(), None);
    assert_eq!(engine.get_execution_result(id).await.unwrap(), None);
    assert_eq!(engine.get_execution_namespace(id).await.unwrap(), None);
    assert_eq!(engine.get_execution_tag(id, "app.x").await.unwrap(), None);
    assert_eq!(engine.history(id).await.unwrap(), None);
    let missing = Code::ExecutionNotFound;
    assert_eq!(engine.read_execution_context(id).await.unwrap_err().code(), missing);
    assert_eq!(engine.read_current_attempt_index(id).await.unwrap_err().code(), missing);
    assert_eq!(engine.read_total_attempt_count(id).await.unwrap_err().code(), missing);
    assert_eq!(engine.await_execution(id, Duration::ZERO).await.unwrap_err().code(), missing);
}

#[tokio::test]
async fn a_life_reads_back_from_every_side() {
    let (engine, world) = world();
    let tags = [("app.order".to_owned(), "7".to_owned())].into();
    let id = world.create(Create { tags, ..world.draft() }).await;
    let info = engine.read_execution_info(id).await.unwrap().unwrap();
    assert_eq!(info.state_vector.attempt_state, AttemptState::PendingFirstAttempt);
    assert_eq!(info.state_vector.blocking_reason, BlockingReason::WaitingForWorker);
    let context = engine.read_execution_context(id).await.unwrap();
    assert_eq!(&context.input.unwrap().bytes[..], b"in");
    assert_eq!(context.tags["app.order"], "7");

    let fence = world.take(id).await.leased.fence;
    let snapshot = engine.describe_execution(id).await.unwrap().unwrap();
    assert_eq!(snapshot.current_lease.unwrap().fence, fence);
    assert_eq!(engine.read_total_attempt_count(id).await.unwrap(), 1);
    assert_eq!(engine.get_execution_result(id).await.unwrap(), None);

    world.complete(id, fence).await.unwrap();
    assert_eq!(&engine.get_execution_result(id).await.unwrap().unwrap().bytes[..], b"out");
    let history = engine.history(id).await.unwrap().unwrap();
    assert_eq!(history.attempts.len(), 1);
    assert_eq!(history.events.len(), 1);
    assert_eq!(history.snapshot.public_state, PublicState::Completed);

    engine.replay_execution(id, "once more").await.unwrap();
    assert_eq!(engine.get_execution_result(id).await.unwrap(), None, "until it succeeds again");
    let fence = world.take(id).await.leased.fence;
    world.complete(id, fence).await.unwrap();
    assert_eq!(engine.history(id).await.unwrap().unwrap().attempts.len(), 2);
    assert!(engine.get_execution_result(id).await.unwrap().is_some());
}

#[tokio::test]
async fn waiting_for_an_end_wakes_when_it_comes() {
    let (engine, world) = world();
    let (id, fence) = world.running(json!({})).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.await_execution(id, Duration::from_secs(20)).await }
    });
    tokio::task::yield_now().await;
    world.complete(id, fence).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), PublicState::Completed);
    let (id, _) = world.running(json!({})).await;
    let state = engine.await_execution(id, Duration::from_millis(10)).await.unwrap();
    assert_eq!(state, PublicState::Active, "the time was up");
}

#[tokio::test]
async fn a_result_is_told_with_the_end_or_read_after_it() {
    let (engine, world) = world();
    let (id, fence) = world.running(json!({})).await;
    let soon = Duration::from_millis(10);
    assert_eq!(engine.await_result(id, soon).await.unwrap(), (PublicState::Active, None));
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.await_result(id, Duration::from_secs(20)).await }
    });
    tokio::task::yield_now().await;
    engine.complete_execution(id, fence, Some(Bytes::from_static(b"done"))).await.unwrap();
    let (state, told) = waiting.await.unwrap().unwrap();
    assert_eq!(state, PublicState::Completed);
    assert_eq!(told.unwrap().bytes, "done");
    let (state, read) = engine.await_result(id, soon).await.unwrap();
    assert_eq!((state, read.unwrap().bytes), (PublicState::Completed, "done".into()));
    // One without a result, and one that did not succeed, have none.
    let (id, fence) = world.running(json!({})).await;
    engine.complete_execution(id, fence, None).await.unwrap();
    assert_eq!(engine.await_result(id, soon).await.unwrap(), (PublicState::Completed, None));
    let (id, _) = world.running(json!({})).await;
    engine.cancel_execution(id, "stop").await.unwrap();
    assert_eq!(engine.await_result(id, soon).await.unwrap(), (PublicState::Cancelled, None));
}

#[tokio::test]
async fn of_two_completions_the_result_of_the_first_is_told() {
    let (engine, world) = world();
    let (id, fence) = world.running(json!({})).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.await_result(id, Duration::from_secs(20)).await }
    });
    tokio::task::yield_now().await;
    let complete = |result: &'static [u8]| Complete {
        id,
        fence,
        result: Some(Bytes::from_static(result)),
        encoding: None,
    };
    let both = engine.execute_all(vec![complete(b"one"), complete(b"two")]).await.unwrap();
    assert_eq!(both[0], Ok(()));
    assert_eq!(both[1].as_ref().map_err(|refused| refused.code), Err(Code::ResultConflict));
    let (state, told) = waiting.await.unwrap().unwrap();
    assert_eq!((state, told.unwrap().bytes), (PublicState::Completed, "one".into()));
}

#[tokio::test]
async fn listing_pages_and_counts_agree() {
    let (engine, world) = world();
    for number in 0..25 {
        world.pass(1);
        let lane = ff_conformance::world::lane(if number < 5 { "a" } else { "b" });
        world.create(Create { lane, ..world.draft() }).await;
    }
    let mut page = Page::first(10);
    let mut seen = Vec::new();
    loop {
        let (found, next) = engine.search_executions(Search::default(), &page).await.unwrap();
        seen.extend(found.into_iter().map(|x| x.created_at));
        let Some(next) = next else { break };
        page.after = Some(next);
    }
    assert_eq!(seen.len(), 25);
    assert!(seen.windows(2).all(|pair| pair[0] > pair[1]), "newest first");
    let counts = engine.count_executions().await.unwrap();
    let counts: Vec<_> = counts.iter().map(|c| (c.lane.as_str(), c.state, c.count)).collect();
    assert_eq!(counts, [("a", PublicState::Waiting, 5), ("b", PublicState::Waiting, 20)]);
    let (lanes, next) = engine.list_lanes(None, 1).await.unwrap();
    assert_eq!(lanes[0].as_str(), "a");
    let (lanes, end) = engine.list_lanes(next, 5).await.unwrap();
    assert_eq!((lanes[0].as_str(), end), ("b", None));
}

#[tokio::test]
async fn a_consumer_goes_on_where_it_acknowledged() {
    let (engine, world) = world();
    let name = ConsumerName::new("billing").unwrap();
    let filter = Filter { kinds: vec![EventName::Completion], ..Filter::default() };
    for _ in 0..5 {
        let (id, fence) = world.running(json!({})).await;
        world.complete(id, fence).await.unwrap();
    }
    let mut consumer = engine.consumer(name.clone()).await.unwrap();
    let first = consumer.next(&filter, 2, Duration::ZERO).await.unwrap();
    assert_eq!(first.events.len(), 2);
    consumer.acknowledge(&first.next).await.unwrap();
    drop(consumer);
    let mut consumer = engine.consumer(name.clone()).await.unwrap();
    let rest = consumer.next(&filter, 100, Duration::ZERO).await.unwrap();
    assert_eq!(rest.events.len(), 3, "k + 1 comes first");
    assert!(rest.events[0].cursor.seq() > first.next.seq());
    let listed = engine.list_consumers(None, 100).await.unwrap();
    let acknowledged_at = engine.server_time_ms().await.unwrap();
    assert_eq!(listed, (vec![ConsumerSnapshot { name: name.clone(), acknowledged_at }], None));
    engine.drop_consumer(name).await.unwrap();
    assert_eq!(engine.list_consumers(None, 100).await.unwrap(), (vec![], None));
}

#[tokio::test]
async fn a_consumer_moves_past_what_it_does_not_want_but_not_past_the_end() {
    let (engine, world) = world();
    let id = world.create(world.draft()).await;
    engine.hold_execution(id, "not yet").await.unwrap();
    let mut consumer = engine.consumer(ConsumerName::new("audit").unwrap()).await.unwrap();
    let filter = Filter { kinds: vec![EventName::Replayed], ..Filter::default() };
    let page = consumer.next(&filter, 10, Duration::ZERO).await.unwrap();
    assert!(page.events.is_empty());
    assert_eq!(*consumer.cursor(), engine.feed_tail().await.unwrap());
    let beyond = consumer.acknowledge(&Cursor::Seq(99)).await.unwrap_err();
    assert_eq!(beyond.code(), Code::InvalidInput);
    engine.drop_consumer(ConsumerName::new("audit").unwrap()).await.unwrap();
    engine.unhold_execution(id).await.unwrap();
    let gone = consumer.next(&filter, 10, Duration::ZERO).await.unwrap_err();
    assert_eq!(gone.code(), Code::ConsumerNotFound);
    let listed = engine.list_consumers(None, 100).await.unwrap();
    assert_eq!(listed, (vec![], None), "it stays dropped");
}

#[tokio::test]
async fn a_cursor_of_another_kind_of_store_is_refused() {
    let (engine, world) = world();
    let id = world.create(world.draft()).await;
    engine.hold_execution(id, "not yet").await.unwrap();
    let foreign: Cursor = "window:5:5:@0/7:9:8@1/1".parse().unwrap();
    let mut consumer = engine.consumer(ConsumerName::new("audit").unwrap()).await.unwrap();
    let read = engine.read_events(&foreign, &Filter::default(), 10, Duration::ZERO).await;
    for refused in [read.unwrap_err(), consumer.acknowledge(&foreign).await.unwrap_err()] {
        let Error::Rejected(rejection) = refused else { panic!("nothing failed: {refused}") };
        assert_eq!((rejection.code, rejection.field), (Code::InvalidInput, Some("cursor")));
        assert_eq!(rejection.value, Some(foreign.to_string()));
    }
    assert_eq!(*consumer.cursor(), Cursor::Start);
}

#[tokio::test]
async fn a_place_of_another_listing_is_refused() {
    let (engine, world) = world();
    let id = world.create(world.draft()).await;
    let other = ff_core::Partition::new(i64::from(id.partition().index()) ^ 1).unwrap();
    let refused = engine.list_executions(other, Some(id), 10).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidInput);
    let after = Some(ff_core::query::After::Id(id));
    let page = Page { after, limit: 10 };
    let refused = engine.search_executions(Search::default(), &page).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidInput);
}

#[tokio::test]
async fn a_reader_of_the_feed_wakes_for_what_it_wants() {
    let (engine, world) = world();
    let tail = engine.feed_tail().await.unwrap();
    assert_eq!(tail, Cursor::Start);
    let filter = Filter { kinds: vec![EventName::Completion], ..Filter::default() };
    let reader = tokio::spawn({
        let engine = engine.clone();
        async move { engine.read_events(&tail, &filter, 10, Duration::from_secs(20)).await }
    });
    tokio::task::yield_now().await;
    let id = world.create(world.draft()).await;
    engine.hold_execution(id, "not yet").await.unwrap();
    engine.unhold_execution(id).await.unwrap();
    let fence = world.take(id).await.leased.fence;
    world.complete(id, fence).await.unwrap();
    let page = reader.await.unwrap().unwrap();
    assert_eq!(page.events.len(), 1, "only what was asked for");
}

#[tokio::test]
async fn what_ended_a_wait_takes_as_many_reads_however_much_came_before() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine = Engine::new(Arc::clone(&slow) as _);
    let reads = || slow.obstacle.reads.load(Ordering::SeqCst);
    let mut counts = Vec::new();
    for notes in [0, 250] {
        let (fence, own) = world.waiting_for(&["answer"], single("answer", Some("go"))).await;
        for _ in 0..notes {
            world.deliver(own[0].signal(&world, "note")).await;
        }
        let go = own[0].signal(&world, "go");
        let (id, sent) = (go.id, go.signal);
        world.deliver(go).await;
        let before = reads();
        let ended = engine.observe_signals(id, fence).await.unwrap();
        counts.push(reads() - before);
        assert_eq!(ended.iter().map(|signal| signal.id).collect::<Vec<_>>(), [sent]);
        assert_eq!(ended[0].number, notes);
    }
    assert_eq!(counts, [2, 2], "what it waited for, and what came");
}

#[tokio::test]
async fn what_came_is_read_with_waitpoints_only_where_somebody_decides() {
    let (_, world) = world();
    let slow = Arc::new(slow(Arc::clone(&world.store.backend)));
    let engine = Engine::new(Arc::clone(&slow) as _);
    let reads = || slow.obstacle.reads.load(Ordering::SeqCst);
    let approval = json!({"approval": {"waitpoint": "answer", "needed": 2}});
    let approval: ResumeCondition = serde_json::from_value(approval).unwrap();
    for (condition, expected) in [(single("answer", None), 2), (approval, 3)] {
        let (_, own) = world.waiting_for(&["answer"], condition).await;
        let before = reads();
        let listed = engine.list_pending_waitpoints(Some(own[0].id), None, None).await.unwrap().0;
        assert_eq!((listed.len(), reads() - before), (1, expected));
    }
}
