//! The feed while many write: whatever the order of numbers and commits, every event is read
//! once, and nobody's open transaction holds a reader up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ff_conformance::World;
use ff_conformance::cases::calls::{completion, failure, retrying};
use ff_conformance::world::lane;
use ff_core::backend::{Backend, Duty};
use ff_core::command::{Command, Reply};
use ff_core::decide::consumer::SaveCursor;
use ff_core::decide::create::Create;
use ff_core::decide::retention::Trim;
use ff_core::event::{Cursor, EventKind, FeedEvent, Filter};
use ff_core::fold::Key;
use ff_core::policy::{FailureClass, Policy};
use ff_core::text::ConsumerName;
use ff_core::{ExecutionId, State};
use serde_json::json;
use tokio_postgres::Client;

use crate::stores::{Stores, ask, connect_to, create, draft};

/// A transaction held by hand.
struct Hand(Client);

impl Hand {
    /// One that has its number already, as ours have before they append.
    async fn begin(stores: &Stores) -> Self {
        let client = stores.connect().await;
        client.batch_execute("begin; select pg_current_xact_id()").await.unwrap();
        Self(client)
    }

    /// Appends an event.
    async fn append(&self, id: ExecutionId, reason: &str) {
        let sql = "insert into ff_event (at_ms, execution_id, partition_key, namespace, lane_id, \
            kind, reason) values (1, $1, $2, 'test', 'default', 'held', $3)";
        let partition = i16::from(id.partition().index());
        self.0.execute(sql, &[&id.uuid(), &partition, &reason]).await.unwrap();
    }

    async fn commit(&self) {
        self.0.batch_execute("commit").await.unwrap();
    }

    async fn abort(&self) {
        self.0.batch_execute("rollback").await.unwrap();
    }
}

/// A reader that keeps its place as text.
struct Reader<'w> {
    world: &'w World,
    at: String,
}

impl<'w> Reader<'w> {
    fn new(world: &'w World) -> Self {
        Self { world, at: Cursor::Start.to_string() }
    }

    async fn page(&mut self, limit: u32) -> Vec<FeedEvent> {
        let page = self.world.feed(&self.at.parse().unwrap(), &Filter::default(), limit).await;
        self.at = page.next.to_string();
        page.events
    }

    /// Everything there is to read now, in pages of `limit`.
    async fn rest(&mut self, limit: u32) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let page = self.page(limit).await;
            if page.is_empty() {
                return all;
            }
            all.extend(page.iter().map(told));
        }
    }
}

/// Why it was held, or the kind of the event.
fn told(event: &FeedEvent) -> String {
    match &event.event.kind {
        EventKind::Held { reason } => reason.clone(),
        other => other.name().as_str().to_owned(),
    }
}

async fn cancelled(w: &World) {
    let id = w.create(w.draft()).await;
    w.cancel(id).await.unwrap();
}

#[tokio::test]
async fn an_event_that_commits_late_under_a_lower_number_is_read_once() {
    for limit in [1, 2, 10] {
        let stores = Stores::new();
        let w = stores.open().await;
        let id = w.create(w.draft()).await;
        let mut reader = Reader::new(&w);
        let (late, early) = (Hand::begin(&stores).await, Hand::begin(&stores).await);
        late.append(id, "late 1").await;
        late.append(id, "late 2").await;
        early.append(id, "early").await;
        early.commit().await;
        assert_eq!(reader.rest(limit).await, ["early"]);
        cancelled(&w).await;
        assert_eq!(reader.rest(limit).await, ["completion"]);
        late.commit().await;
        assert_eq!(reader.rest(limit).await, ["late 1", "late 2"]);
        assert!(reader.rest(limit).await.is_empty());
        assert_eq!(Reader::new(&w).rest(limit).await, ["late 1", "late 2", "early", "completion"]);
    }
}

#[tokio::test]
async fn in_every_order_of_commits_every_event_is_read_once() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let stores = Stores::new();
    let w = stores.open().await;
    let id = w.create(w.draft()).await;
    for (order, limit) in orders.iter().flat_map(|order| [(order, 1), (order, 3)]) {
        let mut reader = Reader::new(&w);
        reader.at = w.store.backend.tail().await.unwrap().to_string();
        let mut hands = Vec::new();
        for _ in order {
            hands.push(Hand::begin(&stores).await);
        }
        // The transactions take their numbers in turn, the last one first.
        for (round, (at, hand)) in [0, 1]
            .into_iter()
            .flat_map(|round| hands.iter().enumerate().rev().map(move |hand| (round, hand)))
        {
            hand.append(id, &format!("{at}.{round}")).await;
        }
        for at in order {
            // What is open is neither waited for nor passed over.
            assert!(reader.rest(limit).await.is_empty());
            hands[*at].commit().await;
            let expected = [format!("{at}.0"), format!("{at}.1")];
            assert_eq!(reader.rest(limit).await, expected, "{order:?}, pages of {limit}");
        }
    }
}

#[tokio::test]
async fn a_page_cut_in_a_window_goes_on_in_it_whatever_commits_meanwhile() {
    let stores = Stores::new();
    let w = stores.open().await;
    let id = w.create(w.draft()).await;
    let (late, other) = (Hand::begin(&stores).await, Hand::begin(&stores).await);
    for name in ["a", "b", "c"] {
        late.append(id, &format!("late {name}")).await;
        other.append(id, name).await;
    }
    other.commit().await;
    let mut reader = Reader::new(&w);
    let first = reader.page(2).await;
    assert_eq!(first.iter().map(told).collect::<Vec<_>>(), ["a", "b"]);
    late.commit().await;
    assert_eq!(reader.rest(2).await, ["c", "late a", "late b", "late c"]);
}

#[tokio::test]
async fn two_writes_of_one_row_are_read_in_their_order_whoever_began_first() {
    let stores = Stores::new();
    let w = stores.open().await;
    let id = w.create(w.draft()).await;
    let mut watching = Reader::new(&w);
    let (older, younger) = (Hand::begin(&stores).await, Hand::begin(&stores).await);
    assert!(watching.rest(10).await.is_empty());
    younger.append(id, "first").await;
    younger.commit().await;
    older.append(id, "second").await;
    older.commit().await;
    for limit in [1, 10] {
        assert_eq!(Reader::new(&w).rest(limit).await, ["first", "second"]);
    }
    assert_eq!(watching.rest(1).await, ["first", "second"]);
}

/// Runs work and reads while a transaction stays open: each event is in the very next read.
async fn reads_beside_an_open_transaction(w: &World) {
    let mut reader = Reader::new(w);
    let work = async {
        for _ in 0..30 {
            cancelled(w).await;
            assert_eq!(reader.rest(10).await, ["completion"]);
        }
        assert_eq!(Reader::new(w).rest(7).await.len(), 30);
    };
    tokio::time::timeout(Duration::from_secs(30), work).await.unwrap();
}

#[tokio::test]
async fn an_open_transaction_in_another_database_holds_nobody_up() {
    let stores = Stores::new();
    let w = stores.open().await;
    let database = format!("{}_elsewhere", stores.schema.name);
    let here = stores.connect().await;
    here.batch_execute(&format!("create database {database}")).await.unwrap();
    let elsewhere = connect_to(&database).await;
    elsewhere
        .batch_execute("begin; create table t (n bigint); insert into t values (1)")
        .await
        .unwrap();
    reads_beside_an_open_transaction(&w).await;
    elsewhere.batch_execute("commit").await.unwrap();
    assert!(
        Reader { world: &w, at: w.store.backend.tail().await.unwrap().to_string() }
            .rest(10)
            .await
            .is_empty()
    );
    here.batch_execute(&format!("drop database {database} with (force)")).await.unwrap();
}

#[tokio::test]
async fn an_open_transaction_on_the_feed_itself_holds_nobody_up() {
    let stores = Stores::new();
    let w = stores.open().await;
    let id = w.create(w.draft()).await;
    let open = Hand::begin(&stores).await;
    open.append(id, "at last").await;
    reads_beside_an_open_transaction(&w).await;
    let mut reader = Reader { world: &w, at: w.store.backend.tail().await.unwrap().to_string() };
    open.commit().await;
    assert_eq!(reader.rest(10).await, ["at last"]);
    assert!(reader.rest(10).await.is_empty());
}

#[tokio::test]
async fn a_gap_that_an_aborted_transaction_leaves_stops_nobody() {
    let stores = Stores::new();
    let w = stores.open().await;
    let id = w.create(w.draft()).await;
    let mut reader = Reader::new(&w);
    for round in 0..3 {
        let (gone, kept) = (Hand::begin(&stores).await, Hand::begin(&stores).await);
        gone.append(id, "never").await;
        kept.append(id, "kept").await;
        gone.append(id, "never").await;
        if round == 0 {
            gone.abort().await;
        }
        kept.commit().await;
        assert_eq!(reader.rest(1).await, ["kept"]);
        gone.abort().await;
        assert!(reader.rest(1).await.is_empty());
    }
}

/// Works until all `count` executions of a lane are done: each fails twice before that.
async fn work_off(backend: &dyn Backend, lane: &str, count: usize) {
    let mut done = 0;
    while done < count {
        let claims = backend.claim(&[ask(lane, 7)]).await.unwrap();
        let answers: Vec<Command> = claims
            .given
            .iter()
            .flatten()
            .map(|claimed| {
                let (x, fence) = (&claimed.leased.execution, claimed.leased.fence);
                let State::Active(active) = &x.state else { panic!("{x:?} was claimed") };
                if active.attempt.index < 2 {
                    failure(x.id, fence, FailureClass::Transient, "oops").into()
                } else {
                    done += 1;
                    completion(x.id, fence, b"out").into()
                }
            })
            .collect();
        let outcomes = backend.apply(answers).await.unwrap();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_beside_many_writers_reads_every_event_once_and_each_execution_in_order() {
    const EACH: usize = 40;
    let stores = Stores::new();
    let policy = Policy::parse(&retrying(2, 0)).unwrap();
    let mut writers = Vec::new();
    for name in ["a", "b", "c"] {
        let w = stores.open().await;
        let policy = policy.clone();
        writers.push(tokio::spawn(async move {
            for _ in 0..EACH {
                let of = Create { lane: lane(name), policy: policy.clone(), ..draft(&w) };
                create(&*w.store.backend, of).await;
            }
            work_off(&*w.store.backend, name, EACH).await;
        }));
    }
    let w = stores.open().await;
    let mut reader = Reader::new(&w);
    let mut histories: BTreeMap<ExecutionId, Vec<String>> = BTreeMap::new();
    let mut read = 0;
    for limit in (1..6).cycle() {
        let finished = writers.iter().all(tokio::task::JoinHandle::is_finished);
        let page = reader.page(limit).await;
        if page.is_empty() && finished {
            break;
        }
        read += page.len();
        for event in &page {
            histories.entry(event.event.subject()).or_default().push(told(event));
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!((histories.len(), read), (3 * EACH, 9 * EACH));
    for (id, history) in histories {
        assert_eq!(history, ["attempt_failed", "attempt_failed", "completion"], "{id}");
    }
}

fn consumer() -> ConsumerName {
    ConsumerName::new("mailer").unwrap()
}

pub async fn save(w: &World, at: &str) {
    let cursor = at.parse().unwrap();
    w.run(SaveCursor { consumer: consumer(), cursor, saved: None }).await.unwrap();
}

#[tokio::test]
async fn the_place_of_a_consumer_survives_its_store() {
    let stores = Stores::new();
    let w = stores.open().await;
    let id = w.create(w.draft()).await;
    let (late, early) = (Hand::begin(&stores).await, Hand::begin(&stores).await);
    late.append(id, "late").await;
    for name in ["a", "b", "c"] {
        early.append(id, name).await;
    }
    early.commit().await;
    let mut reader = Reader::new(&w);
    assert_eq!(reader.page(2).await.len(), 2);
    let at = reader.at;
    save(&w, &at).await;
    drop(w);
    late.commit().await;
    let again = stores.open().await;
    let have = again.store.backend.get(&[Key::Consumer(consumer())]).await.unwrap();
    let place = have.consumers[&consumer()].clone().unwrap();
    assert_eq!(place.cursor.to_string(), at);
    let mut reader = Reader { world: &again, at };
    assert_eq!(reader.rest(10).await, ["c", "late"]);
}

#[tokio::test]
async fn retention_waits_for_a_late_event_below_a_consumers_place() {
    let stores = Stores::new();
    let w = stores.open().await;
    let id = w.finished(json!({"retention_ms": 0})).await;
    let late = Hand::begin(&stores).await;
    late.append(id, "late").await;
    let passed = w.finished(json!({"retention_ms": 0})).await;
    let mut reader = Reader::new(&w);
    assert_eq!(reader.rest(10).await, ["completion", "completion"]);
    save(&w, &reader.at).await;
    late.commit().await;
    assert_eq!(w.due(Duty::Retention, 10).await.commands, [Trim { id: passed }.into()]);
    assert_eq!(w.run(Trim { id }).await, Ok(false));
    assert_eq!(reader.page(1).await.iter().map(told).collect::<Vec<_>>(), ["late"]);
    save(&w, &reader.at).await;
    assert_eq!(w.due(Duty::Retention, 10).await.commands.len(), 2);
    assert_eq!(w.tick(Duty::Retention).await, [Ok(Reply::Trim(true)), Ok(Reply::Trim(true))]);
    assert_eq!(w.find(id).await, None);
    assert!(reader.rest(10).await.is_empty());
}

#[tokio::test]
async fn a_cursor_survives_as_text_while_transactions_are_open() {
    let stores = Stores::new();
    let w = Arc::new(stores.open().await);
    let id = w.create(w.draft()).await;
    let (first, second) = (Hand::begin(&stores).await, Hand::begin(&stores).await);
    first.append(id, "first").await;
    cancelled(&w).await;
    second.append(id, "second").await;
    cancelled(&w).await;
    let page = w.feed(&Cursor::Start, &Filter::default(), 10).await;
    let tail = w.store.backend.tail().await.unwrap();
    assert!(
        matches!(&tail, Cursor::Window(window) if window.upto.snapshot.contains(',')),
        "{tail}"
    );
    first.commit().await;
    second.commit().await;
    let cursors = page.events.iter().map(|event| event.cursor.clone());
    for (cursor, left) in cursors.chain([page.next, tail]).zip([3, 2, 2, 2]) {
        let text = cursor.to_string();
        assert_eq!(text.parse(), Ok(cursor));
        assert_eq!(Reader { world: &w, at: text }.rest(1).await.len(), left);
    }
}
