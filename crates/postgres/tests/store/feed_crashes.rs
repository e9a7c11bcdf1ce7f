//! The feed over crashes of the server, which then gives the numbers of aborted transactions again:
//! a snapshot from before takes what they do now for what it saw.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ff_backend_postgres::{Options, Postgres};
use ff_cluster::Cluster;
use ff_conformance::model::Tables;
use ff_conformance::{Dial, Store, World};
use ff_core::backend::Duty;
use ff_core::event::{Cursor, FeedEvent, Filter, Horizon, Window};
use ff_core::text::ConsumerName;
use ff_core::{Code, ExecutionId};
use ff_engine::Engine;
use serde_json::json;
use tokio_postgres::NoTls;

use crate::feed::save;
use crate::stores::Stores;

const CRASHES: usize = 20;
/// Transactions that are aborted before each, each with an event: enough to use up the numbers of
/// events that the server has set aside.
const ABORTED: usize = 20;
/// Events after each.
const EACH: usize = 5;
/// Numbers given again that are enough for what a test does after a crash.
const ENOUGH: i64 = 10;

/// Everything of a page that the feed must not repeat.
fn subjects(events: &[FeedEvent]) -> Vec<ExecutionId> {
    events.iter().map(|event| event.event.subject()).collect()
}

/// The three who read, each with a place of its own.
struct Readers {
    world: World,
    engine: Engine,
    pager: Cursor,
    stream: Cursor,
}

impl Readers {
    /// On a server of their own.
    async fn new(cluster: &Cluster) -> Self {
        let backend = Arc::new(Postgres::open(Options::new(cluster.url())).await.unwrap());
        let (dump, keep) = (Box::new(Tables::default), Box::new(()));
        let world = World::new(Store { backend, dump, keep }, Arc::new(Dial::default()));
        let engine = Engine::new(Arc::clone(&world.store.backend));
        Self { world, engine, pager: Cursor::Start, stream: Cursor::Start }
    }

    /// Page by page, with a cursor kept as text.
    async fn page(&mut self) -> Vec<ExecutionId> {
        let mut all = Vec::new();
        loop {
            let from = self.pager.to_string().parse().unwrap();
            let page = self.world.feed(&from, &Filter::default(), 3).await;
            self.pager = page.next;
            if page.events.is_empty() {
                return all;
            }
            all.extend(subjects(&page.events));
        }
    }

    /// As a stream does, which waits a while for each read.
    async fn follow(&mut self, wait: Duration) -> Vec<ExecutionId> {
        let page = self.engine.read_events(&self.stream, &Filter::default(), 100, wait).await;
        let page = page.unwrap();
        self.stream = page.next;
        subjects(&page.events)
    }

    /// As a consumer that starts anew from the place that is kept for it.
    async fn consume(&self) -> Vec<ExecutionId> {
        let name = ConsumerName::new("mailer").unwrap();
        let mut consumer = self.engine.consumer(name).await.unwrap();
        let mut all = Vec::new();
        loop {
            let page = consumer.next(&Filter::default(), 3, Duration::ZERO).await.unwrap();
            if page.events.is_empty() {
                return all;
            }
            consumer.acknowledge(&page.next).await.unwrap();
            all.extend(subjects(&page.events));
        }
    }
}

/// Begins transactions that append an event, and aborts them; the number of the next one.
async fn abort_some(cluster: &Cluster) -> i64 {
    let (db, connection) = tokio_postgres::connect(&cluster.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..ABORTED {
        let append = "begin; insert into ff_event (at_ms, execution_id, partition_key, namespace, \
            lane_id, kind) values (1, gen_random_uuid(), 1, 'test', 'default', 'held'); rollback";
        db.batch_execute(append).await.unwrap();
    }
    next_number(cluster).await
}

/// The same for transactions that only draw numbers of events: so little log that it most likely fits into
/// the page that the server has not written.
async fn abort_draws(cluster: &Cluster) -> i64 {
    let (db, connection) = tokio_postgres::connect(&cluster.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 * ABORTED {
        let draw = "begin; select pg_current_xact_id(), \
            nextval(pg_get_serial_sequence('ff_event', 'seq')) from generate_series(1, 4); rollback";
        db.batch_execute(draw).await.unwrap();
    }
    next_number(cluster).await
}

async fn next_number(cluster: &Cluster) -> i64 {
    let (db, connection) = tokio_postgres::connect(&cluster.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let next = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    db.query_one(next, &[]).await.unwrap().get(0)
}

/// Has the readers read before and after a crash; whether numbers were given again.
async fn crash(cluster: &mut Cluster, readers: &mut Readers, round: usize) -> bool {
    let mut ids = Vec::new();
    for _ in 0..EACH {
        ids.push(readers.world.create(readers.world.draft()).await);
    }
    // It keeps its place now, if it does: that writes, and so flushes what was aborted before.
    assert!(readers.consume().await.is_empty());
    let before = abort_some(cluster).await;
    assert!(readers.page().await.is_empty());
    assert!(readers.follow(Duration::ZERO).await.is_empty());
    tokio::task::block_in_place(|| cluster.kill().and_then(|()| cluster.restart())).unwrap();
    let given_again = next_number(cluster).await < before;
    for id in &ids {
        readers.world.cancel(*id).await.unwrap();
    }
    assert_eq!(readers.page().await, ids, "the pager, after crash {round}");
    let followed = readers.follow(Duration::from_secs(1)).await;
    assert_eq!(followed, ids, "the stream, after crash {round}");
    assert_eq!(readers.consume().await, ids, "the consumer, after crash {round}");
    given_again
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_loses_or_repeats_an_event_over_twenty_crashes() {
    // What was aborted is flushed late, so that a crash forgets it.
    let settings = [("fsync", "off"), ("wal_writer_delay", "10s")];
    let mut cluster = Cluster::start(&settings).unwrap();
    let mut readers = Readers::new(&cluster).await;
    assert!(readers.consume().await.is_empty());
    let mut given_again = 0;
    for round in 0..CRASHES {
        given_again += usize::from(crash(&mut cluster, &mut readers, round).await);
    }
    assert!(given_again > CRASHES / 2, "numbers were given again after {given_again} crashes");
    let all = readers.world.feed(&Cursor::Start, &Filter::default(), 1_000).await.events;
    let distinct: BTreeSet<_> = subjects(&all).into_iter().collect();
    assert_eq!((all.len(), distinct.len()), (CRASHES * EACH, CRASHES * EACH));
}

/// The newest place, as its snapshot would be if many more transactions had been aborted.
async fn far_ahead(w: &World) -> Cursor {
    let Cursor::Window(tail) = w.store.backend.tail().await.unwrap() else {
        panic!("this store has many writers")
    };
    let snapshot = "900000000000:900000000000:".to_owned();
    let upto = Horizon { snapshot, ..tail.upto };
    let after = upto.seq;
    Cursor::Window(Box::new(Window { base: upto.clone(), upto, after }))
}

#[tokio::test]
async fn what_is_numbered_above_a_snapshot_is_new_whatever_its_transaction() {
    let stores = Stores::new();
    let w = stores.open().await;
    w.finished(json!({"retention_ms": 0})).await;
    let place = far_ahead(&w).await;
    save(&w, &place.to_string()).await;
    let id = w.finished(json!({"retention_ms": 0})).await;
    assert_eq!(w.tick(Duty::Retention).await.len(), 1, "what the consumer read goes");
    assert!(w.find(id).await.is_some(), "retention waits for the consumer");
    for limit in [1, 10] {
        let read = w.feed(&place, &Filter::default(), limit).await.events;
        assert_eq!(subjects(&read), [id]);
        let of = Filter { execution: Some(id), ..Filter::default() };
        assert_eq!(w.feed(&place, &of, limit).await.events.len(), 1);
        assert!(w.feed(&read[0].cursor, &Filter::default(), limit).await.events.is_empty());
    }
}

/// A store on a server that forgets what it aborted when it crashes, with a clock of the test's own.
async fn forgetful() -> (Cluster, World) {
    let settings = [
        ("fsync", "off"),
        ("wal_writer_delay", "10s"),
        ("wal_writer_flush_after", "64MB"),
        ("bgwriter_lru_maxpages", "0"),
        ("autovacuum", "off"),
    ];
    let cluster = Cluster::start(&settings).unwrap();
    let clock = Arc::new(Dial::default());
    let options = Options { clock: Some(Arc::clone(&clock) as _), ..Options::new(cluster.url()) };
    let backend = Arc::new(Postgres::open(options).await.unwrap());
    let (dump, keep) = (Box::new(Tables::default), Box::new(()));
    (cluster, World::new(Store { backend, dump, keep }, clock))
}

/// Crashes the server until it gives numbers of transactions again, and of `events`; the newest place from
/// right before, and the newest number of an event. Whether it does depends on where a page of the log ends.
async fn forgotten(cluster: &mut Cluster, w: &World, events: bool) -> (Cursor, u64) {
    for _ in 0..50 {
        // What is committed is flushed, and all before it.
        w.create(w.draft()).await;
        let place = w.feed(&Cursor::Start, &Filter::default(), 1_000).await.next;
        let before = abort_draws(cluster).await;
        // Twice: then both of its snapshots have seen them end.
        let place = w.feed(&place, &Filter::default(), 1_000).await.next;
        let place = w.feed(&place, &Filter::default(), 1_000).await.next;
        let newest = w.store.backend.tail().await.unwrap().seq();
        tokio::task::block_in_place(|| cluster.kill().and_then(|()| cluster.restart())).unwrap();
        let again = next_number(cluster).await + ENOUGH < before;
        let events_too = w.store.backend.tail().await.unwrap().seq() < newest;
        if again && (events_too || !events) {
            return (place, newest);
        }
    }
    panic!("no number was given again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_under_numbers_given_again_is_read_of_a_flow_and_waits_for_its_consumer() {
    let (mut cluster, w) = forgetful().await;
    let engine = Engine::new(Arc::clone(&w.store.backend));
    let mut consumer = engine.consumer(ConsumerName::new("mailer").unwrap()).await.unwrap();
    let kept = json!({"retention_ms": 0});
    let drawn = w.sketch("a").policy(&kept).submit().await;
    let fence = w.start(drawn.id("a")).await;
    let (done, held) = w.running(kept.clone()).await;
    let cancelled = w.create_with(kept).await;
    let (place, _) = forgotten(&mut cluster, &w, false).await;
    // What was read before the crash is acknowledged after it.
    consumer.acknowledge(&place).await.unwrap();
    w.complete(drawn.id("a"), fence).await.unwrap();
    w.dispatch().await;
    w.cancel(cancelled).await.unwrap();
    w.complete(done, held).await.unwrap();
    w.pass(1_000);
    for limit in [1, 10] {
        let (mut from, mut told) = (place.clone(), Vec::new());
        let of = Filter { flow: Some(drawn.flow), ..Filter::default() };
        for _ in 0..3 {
            let page = w.feed(&from, &of, limit).await;
            told.extend(page.events.iter().map(|event| event.event.kind.name().as_str()));
            from = page.next;
        }
        assert_eq!(told, ["completion", "flow_ended"], "in pages of {limit}");
    }
    assert!(w.due(Duty::Retention, 10).await.commands.is_empty(), "nothing of it was read");
    let page = consumer.next(&Filter::default(), 10, Duration::ZERO).await.unwrap();
    assert_eq!(page.events.len(), 4);
    consumer.acknowledge(&page.next).await.unwrap();
    assert_eq!(w.due(Duty::Retention, 10).await.commands.len(), 3);
    assert!(w.tick(Duty::Retention).await.iter().all(Result::is_ok));
    assert_eq!((w.find_flow(drawn.flow).await, w.find(cancelled).await), (None, None));
}

/// A place as earlier versions wrote it: with the newest number of the sequence.
fn old(place: &Cursor, newest: u64) -> Cursor {
    let Cursor::Window(window) = place else { panic!("this store has many writers") };
    let snapshot = &window.upto.snapshot;
    let text = format!("window:{snapshot}@{newest}/{snapshot}@{newest}/{newest}");
    text.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_an_earlier_version_is_accepted_and_loses_nothing() {
    let (mut cluster, w) = forgetful().await;
    let engine = Engine::new(Arc::clone(&w.store.backend));
    let mut consumer = engine.consumer(ConsumerName::new("mailer").unwrap()).await.unwrap();
    let first = w.create(w.draft()).await;
    w.cancel(first).await.unwrap();
    abort_some(&cluster).await;
    // Without a crash it means what it meant.
    let place = w.feed(&Cursor::Start, &Filter::default(), 10).await.next;
    let before = old(&place, w.store.backend.tail().await.unwrap().seq());
    assert!(before.seq() > place.seq(), "what was aborted has drawn numbers");
    consumer.acknowledge(&before).await.unwrap();
    let second = w.create(w.draft()).await;
    w.cancel(second).await.unwrap();
    assert_eq!(subjects(&w.feed(&before, &Filter::default(), 10).await.events), [second]);
    let page = consumer.next(&Filter::default(), 10, Duration::ZERO).await.unwrap();
    assert_eq!(subjects(&page.events), [second]);
    consumer.acknowledge(&page.next).await.unwrap();
    // After one, its numbers may never have been given.
    let waiting = w.create(w.draft()).await;
    let (place, newest) = forgotten(&mut cluster, &w, true).await;
    let lost = old(&place, newest);
    w.cancel(waiting).await.unwrap();
    assert!(w.store.backend.tail().await.unwrap().seq() < newest, "numbers are given again");
    let read = w.feed(&lost, &Filter::default(), 10).await;
    assert_eq!(subjects(&read.events), [first, second, waiting], "it begins anew");
    assert!(w.feed(&read.next, &Filter::default(), 10).await.events.is_empty());
    let refused = consumer.acknowledge(&lost).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidInput);
    let page = consumer.next(&Filter::default(), 10, Duration::ZERO).await.unwrap();
    assert_eq!(subjects(&page.events), [waiting], "it goes on where it was");
    consumer.acknowledge(&page.next).await.unwrap();
}
