//! Wake-ups between stores: those who wait are told, those who do not cost nothing, and a lost
//! connection costs only time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_backend_postgres::Options;
use ff_conformance::World;
use ff_core::backend::Interest;
use ff_core::event::{Cursor, Filter};
use ff_core::{Command, ExecutionId};
use ff_engine::Engine;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use crate::line::{Cut, Line};
use crate::server;
use crate::stores::{Stores, ask, create, draft};

/// Longer than any test: who looks this seldom was told.
const NEVER: Duration = Duration::from_hours(1);
/// Within which a test must see what it waits for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Within which a store must have been told.
const SOON: Duration = Duration::from_secs(2);

/// A store whose connections go by a name.
async fn named(stores: &Stores, name: &str, poll: Duration) -> Arc<World> {
    let url = format!("{}?application_name={}", server::url(), app(stores, name));
    Arc::new(stores.world(Options { url, poll, ..stores.options() }).await)
}

fn app(stores: &Stores, name: &str) -> String {
    format!("{}_{name}", stores.schema.name)
}

/// The connection of a store that listens, once it says that the store idles.
async fn idling(db: &Client, app: &str, other_than: i32) -> i32 {
    let sql = "select l.pid from pg_locks l join pg_stat_activity a using (pid) \
        where a.application_name = $1 and l.locktype = 'advisory' and l.mode = 'ShareLock' \
        and l.granted and l.pid <> $2";
    let seen = async {
        loop {
            if let Some(row) = db.query_opt(sql, &[&app, &other_than]).await.unwrap() {
                return row.get(0);
            }
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap()
}

/// Claims, waiting for work to come.
fn waiting_worker(w: &Arc<World>) -> JoinHandle<ExecutionId> {
    let w = Arc::clone(w);
    tokio::spawn(async move {
        loop {
            let seen = w.store.backend.generation(Interest::Work);
            let claims = w.store.backend.claim(&[ask("default", 1)]).await.unwrap();
            if let Some(claimed) = claims.given.iter().flatten().next() {
                return claimed.leased.execution.id;
            }
            w.store.backend.wait(Interest::Work, seen).await;
        }
    })
}

/// Reads the feed, waiting for something to happen.
fn waiting_reader(w: &Arc<World>) -> JoinHandle<ExecutionId> {
    let w = Arc::clone(w);
    tokio::spawn(async move {
        let mut at = Cursor::Start;
        loop {
            let seen = w.store.backend.generation(Interest::Events);
            let page = w.feed(&at, &Filter::default(), 1).await;
            if let Some(event) = page.events.first() {
                return event.event.subject();
            }
            at = page.next;
            w.store.backend.wait(Interest::Events, seen).await;
        }
    })
}

async fn soon<T>(task: JoinHandle<T>) -> T {
    tokio::time::timeout(SOON, task).await.expect("it was told").unwrap()
}

#[tokio::test]
async fn a_waiter_wakes_for_what_another_store_commits() {
    let stores = Stores::new();
    let (here, there) = (named(&stores, "a", NEVER).await, named(&stores, "b", NEVER).await);
    let db = server::connect().await;
    let (worker, reader) = (waiting_worker(&there), waiting_reader(&there));
    idling(&db, &app(&stores, "b"), 0).await;
    let id = create(&*here.store.backend, draft(&here)).await;
    assert_eq!(soon(worker).await, id);
    assert!(!reader.is_finished(), "a creation is no event");
    here.cancel(id).await.unwrap();
    assert_eq!(soon(reader).await, id);
}

/// The reply to a commit is lost; sent again, it finds everything done and writes nothing.
#[tokio::test]
async fn a_waiter_wakes_for_what_was_committed_without_a_reply() {
    let stores = Stores::new();
    let line = Line::new().await;
    let url = format!("{}&application_name={}", line.url(), app(&stores, "a"));
    let here = Options { url, poll: NEVER, ..stores.options() };
    let here = Arc::new(stores.world(here).await);
    let there = named(&stores, "b", NEVER).await;
    let workers = [waiting_worker(&here), waiting_worker(&there)];
    let readers = [waiting_reader(&here), waiting_reader(&there)];
    let db = server::connect().await;
    for store in ["a", "b"] {
        idling(&db, &app(&stores, store), 0).await;
    }
    // Each looks once more when it has said that it idles.
    settle(&line).await;
    let drafts = [draft(&here), draft(&here)];
    let ids = drafts.iter().map(|draft| draft.id).collect::<BTreeSet<_>>();
    line.arm(Cut::AfterCommit);
    let begun = Instant::now();
    let made = here.batch(drafts.map(Command::from).to_vec()).await;
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    assert_eq!(line.cuts(), 1);
    let mut taken = BTreeSet::new();
    for worker in workers {
        taken.insert(soon(worker).await);
    }
    println!("claimed {} ms after a creation without a reply", begun.elapsed().as_millis());
    assert_eq!(taken, ids);
    assert!(readers.iter().all(|reader| !reader.is_finished()), "a creation is no event");
    settle(&line).await;

    let id = taken.pop_first().unwrap();
    line.arm(Cut::AfterCommit);
    let begun = Instant::now();
    here.cancel(id).await.unwrap();
    assert_eq!(line.cuts(), 2);
    for reader in readers {
        assert_eq!(soon(reader).await, id);
    }
    println!("read {} ms after an end without a reply", begun.elapsed().as_millis());
}

#[tokio::test]
async fn a_claim_scans_for_what_a_commit_without_a_reply_leased_for_it() {
    let stores = Stores::new();
    let line = Line::new().await;
    let url = format!("{}&application_name={}", line.url(), app(&stores, "a"));
    let here = stores.world(Options { url, poll: NEVER, ..stores.options() }).await;
    let options = ff_engine::Options { poll: NEVER, ..ff_engine::Options::default() };
    let engine = Engine::with_options(Arc::clone(&here.store.backend), &options);
    let (_, mailbox) = here.waiting().await;
    let claim = tokio::spawn({
        let engine = engine.clone();
        async move { engine.claim(ask("default", 1), PATIENCE).await.unwrap() }
    });
    let db = server::connect().await;
    idling(&db, &app(&stores, "a"), 0).await;
    settle(&line).await;
    line.arm(Cut::AfterCommit);
    engine.deliver_signal(mailbox.signal(&here, "go")).await.unwrap();
    assert_eq!(line.cuts(), 1);
    let claimed = tokio::time::timeout(SOON, claim).await.expect("it scans at once").unwrap();
    assert_eq!(claimed[0].leased.execution.id, mailbox.id);
}

/// Waits until nothing is said on a line: who was woken has looked.
async fn settle(line: &Line) {
    let mut said = line.statements();
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if std::mem::replace(&mut said, line.statements()) == said {
            return;
        }
    }
}

#[tokio::test]
async fn a_waiter_that_is_told_of_a_delay_learns_when_it_is_over() {
    let stores = Stores::new();
    let (here, there) = (named(&stores, "a", NEVER).await, named(&stores, "b", NEVER).await);
    let db = server::connect().await;
    let seen = there.store.backend.generation(Interest::Work);
    let waiter = Arc::clone(&there);
    let waiting = async move { waiter.store.backend.wait(Interest::Work, seen).await };
    // The first wake-up is its own: it looks again after it said that it idles.
    soon(tokio::spawn(waiting)).await;
    idling(&db, &app(&stores, "b"), 0).await;
    let seen = there.store.backend.generation(Interest::Work);
    let due = there.now().plus(5_000);
    let delay_until = Some(due);
    let of = ff_core::decide::create::Create { delay_until, ..draft(&here) };
    create(&*here.store.backend, of).await;
    let waiter = Arc::clone(&there);
    soon(tokio::spawn(async move { waiter.store.backend.wait(Interest::Work, seen).await })).await;
    assert_eq!(there.promote().await, Some(due));
}

/// The channel of a schema, whose name every process computes alike.
fn channel(schema: &str) -> String {
    let hash = schema.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("ff_{hash:016x}")
}

/// Hears what is told there.
async fn overhear(schema: &str) -> (Client, UnboundedReceiver<(i32, String)>) {
    let (client, mut connection) = tokio_postgres::connect(server::url(), NoTls).await.unwrap();
    let (heard, hearing) = unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(note) = message {
                drop(heard.send((note.process_id(), note.payload().to_owned())));
            }
        }
    });
    client.batch_execute(&format!("listen {}", channel(schema))).await.unwrap();
    (client, hearing)
}

/// What was heard until now; whoever had something to tell has told it by then.
async fn so_far(hearing: &mut UnboundedReceiver<(i32, String)>) -> usize {
    let mut count = 0;
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_millis(500), hearing.recv()).await {
        count += 1;
    }
    count
}

#[tokio::test]
async fn nobody_is_told_while_nobody_waits_and_few_times_while_somebody_does() {
    const COMMITS: usize = 200;
    let stores = Stores::new();
    let (here, there) = (named(&stores, "a", NEVER).await, named(&stores, "b", NEVER).await);
    let (db, mut hearing) = overhear(&stores.schema.name).await;
    let commit = || join_all((0..COMMITS).map(|_| create(&*here.store.backend, draft(&here))));
    commit().await;
    assert_eq!(so_far(&mut hearing).await, 0);
    let waiter = waiting_reader(&there);
    idling(&db, &app(&stores, "b"), 0).await;
    commit().await;
    let told = so_far(&mut hearing).await;
    assert!((1..=COMMITS / 2).contains(&told), "{told} times for {COMMITS} commits");
    waiter.abort();
}

#[tokio::test]
async fn who_is_known_to_idle_is_told_with_the_commit_and_nobody_wakes_itself() {
    let stores = Stores::new();
    let (here, there) = (named(&stores, "a", NEVER).await, named(&stores, "b", NEVER).await);
    let (db, mut hearing) = overhear(&stores.schema.name).await;
    let waiter = waiting_reader(&there);
    idling(&db, &app(&stores, "b"), 0).await;
    let work = || here.store.backend.generation(Interest::Work);
    let (before, mut created) = (work(), 0);
    // Some are told by the connection that listens, the others by the one that creates.
    let mut by = BTreeSet::new();
    let told = async {
        while by.len() < 2 {
            create(&*here.store.backend, draft(&here)).await;
            created += 1;
            while let Ok((who, note)) = hearing.try_recv() {
                assert!(note.starts_with('w'), "{note}");
                by.insert(who);
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    // What somebody else says is heard, after what it said itself was passed over.
    db.execute("select pg_notify($1, 'w')", &[&channel(&stores.schema.name)]).await.unwrap();
    let heard = async {
        while work() < before + created + 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
    assert_eq!(work(), before + created + 1);
    waiter.abort();
}

#[tokio::test]
async fn a_store_that_cannot_listen_looks_and_listens_again_later() {
    let stores = Stores::new();
    let poll = Duration::from_millis(100);
    let (here, there) = (named(&stores, "a", NEVER).await, named(&stores, "b", poll).await);
    let db = server::connect().await;
    let worker = waiting_worker(&there);
    let first = idling(&db, &app(&stores, "b"), 0).await;
    db.execute("select pg_terminate_backend($1)", &[&first]).await.unwrap();
    let id = create(&*here.store.backend, draft(&here)).await;
    assert_eq!(soon(worker).await, id);
    let worker = waiting_worker(&there);
    let second = idling(&db, &app(&stores, "b"), first).await;
    assert_ne!(first, second);
    let id = create(&*here.store.backend, draft(&here)).await;
    assert_eq!(soon(worker).await, id);
}

#[tokio::test]
async fn a_store_that_is_dropped_leaves_no_connection() {
    let stores = Stores::new();
    let w = named(&stores, "a", NEVER).await;
    let (db, name) = (server::connect().await, app(&stores, "a"));
    let worker = waiting_worker(&w);
    idling(&db, &name, 0).await;
    let id = create(&*w.store.backend, draft(&w)).await;
    assert_eq!(soon(worker).await, id);
    w.cancel(id).await.unwrap();
    let sql = "select count(*) from pg_stat_activity where application_name = $1";
    let count = || async { db.query_one(sql, &[&name]).await.unwrap().get::<_, i64>(0) };
    // For creating, claiming, operating and listening.
    assert!(count().await >= 4);
    assert_eq!(Arc::strong_count(&w), 1);
    drop(w);
    let gone = async { while count().await > 0 {} };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}
