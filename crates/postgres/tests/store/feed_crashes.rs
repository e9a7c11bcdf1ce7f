//! The feed over crashes of the server, which then gives the numbers of aborted transactions again:
//! a snapshot from before takes what they do now for what it saw.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ff_backend_postgres::{Options, Postgres};
use ff_cluster::Cluster;
use ff_conformance::model::Tables;
use ff_conformance::{Dial, Store, World};
use ff_core::ExecutionId;
use ff_core::backend::Duty;
use ff_core::event::{Cursor, FeedEvent, Filter, Horizon, Window};
use ff_core::text::ConsumerName;
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
