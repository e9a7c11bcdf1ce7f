//! Executions that were completed together are kept in one row until they are removed.

use ff_backend_postgres::Options;
use ff_conformance::World;
use ff_core::backend::Duty;
use ff_core::command::Command;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::decide::replay::Replay;
use ff_core::decide::retention::Trim;
use ff_core::ids::ExecutionId;
use ff_core::policy::Policy;
use serde_json::json;
use tokio_postgres::Client;

use crate::server;
use crate::stores::Stores;

const KEPT_MS: i64 = 1_000;

/// Executions that one batch completed, in the order of their keys.
async fn completed(w: &World, count: u32) -> Vec<ExecutionId> {
    for _ in 0..count {
        w.create_with(json!({"retention_ms": KEPT_MS})).await;
    }
    complete_all(w, count).await
}

async fn complete_all(w: &World, count: u32) -> Vec<ExecutionId> {
    let claimed = w.claim(w.ask(count)).await;
    let complete = |id, fence| Complete { id, fence, result: None, encoding: None };
    let completes = claimed.iter().map(|work| &work.leased);
    let completes = completes.map(|it| Command::from(complete(it.execution.id, it.fence)));
    let outcomes = w.batch(completes.collect()).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let mut ids: Vec<_> = claimed.iter().map(|work| work.leased.execution.id).collect();
    ids.sort_unstable();
    ids
}

async fn replay(w: &World, id: ExecutionId) {
    w.run(Replay { id, reason: "once more".to_owned(), replays: None, downstream: true })
        .await
        .unwrap();
}

async fn batches(db: &Client) -> i64 {
    db.query_one("select count(*) from ff_retention", &[]).await.unwrap().get(0)
}

fn trims(ids: &[ExecutionId]) -> Vec<Command> {
    ids.iter().map(|id| Trim { id: *id }.into()).collect()
}

#[tokio::test]
async fn a_batch_is_one_row_and_goes_with_the_last_of_it() {
    let stores = Stores::new();
    let (w, db) = (stores.open().await, stores.connect().await);
    let ids = completed(&w, 4).await;
    assert_eq!(batches(&db).await, 1);
    let due = w.due(Duty::Retention, 10).await;
    assert_eq!((due.commands, due.next), (vec![], Some(w.now().plus(1_000))));
    // One that is replayed is not removed with the others.
    replay(&w, ids[1]).await;
    w.pass(KEPT_MS);
    assert_eq!(w.due(Duty::Retention, 10).await.commands, trims(&[ids[0], ids[2], ids[3]]));
    assert_eq!(w.due(Duty::Retention, 2).await.commands, trims(&[ids[0], ids[2]]));
    assert_eq!(w.run(Trim { id: ids[2] }).await, Ok(true));
    assert_eq!(batches(&db).await, 1);
    w.tick(Duty::Retention).await;
    assert_eq!(batches(&db).await, 0);
    let left = w.claim(w.ask(10)).await;
    assert_eq!(left.iter().map(|work| work.leased.execution.id).collect::<Vec<_>>(), [ids[1]]);
}

#[tokio::test]
async fn a_batch_of_one_goes_with_its_replay() {
    let stores = Stores::new();
    let (w, db) = (stores.open().await, stores.connect().await);
    let ids = completed(&w, 1).await;
    assert_eq!(batches(&db).await, 1);
    replay(&w, ids[0]).await;
    assert_eq!(batches(&db).await, 0);
    assert_eq!(w.due(Duty::Retention, 10).await.next, None);
}

#[tokio::test]
async fn what_is_replayed_and_completed_in_the_same_moment_is_removed_once() {
    let stores = Stores::new();
    let (w, db) = (stores.open().await, stores.connect().await);
    let ids = completed(&w, 2).await;
    replay(&w, ids[0]).await;
    let again = w.take(ids[0]).await.leased;
    // It is listed by itself now, and still with the other one.
    w.complete(ids[0], again.fence).await.unwrap();
    w.pass(KEPT_MS);
    assert_eq!(w.due(Duty::Retention, 10).await.commands, trims(&ids));
    w.tick(Duty::Retention).await;
    assert_eq!(batches(&db).await, 0);
}

#[tokio::test]
async fn what_is_replayed_into_a_flow_goes_with_the_flow() {
    let stores = Stores::new();
    let (w, db) = (stores.open().await, stores.connect().await);
    let flow = w.empty_flow().await;
    let policy = Policy::parse(&json!({"retention_ms": KEPT_MS})).unwrap();
    for _ in 0..2 {
        let id = ExecutionId::for_flow(flow, w.uuid());
        w.create(Create { policy: policy.clone(), ..w.draft_of(id) }).await;
    }
    let ids = complete_all(&w, 2).await;
    assert_eq!(batches(&db).await, 1);
    // It ends as a member in the same moment, so it would be kept until the same time.
    replay(&w, ids[0]).await;
    w.add(flow, ids[0]).await.unwrap();
    w.succeed(ids[0]).await;
    w.pass(KEPT_MS);
    assert_eq!(w.due(Duty::Retention, 10).await.commands, trims(&ids[1..]));
    w.tick(Duty::Retention).await;
    assert_eq!(batches(&db).await, 0);
    assert!(w.find(ids[0]).await.is_some());
}

/// Whatever the server, the role or the URL says about transactions.
const ISOLATED: &str = "options=-c%20default_transaction_isolation%3Drepeatable%5C%20read";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_remove_the_last_of_a_batch_at_once_leave_nothing_behind() {
    let stores = Stores::new();
    let open = || {
        let url = format!("{}?{ISOLATED}", server::url());
        stores.world(Options { url, ..stores.options() })
    };
    let (a, b, db) = (open().await, open().await, stores.connect().await);
    for _ in 0..50 {
        let ids = completed(&a, 2).await;
        a.pass(KEPT_MS);
        let both = tokio::join!(a.run(Trim { id: ids[0] }), b.run(Trim { id: ids[1] }));
        assert_eq!(both, (Ok(true), Ok(true)));
        assert_eq!(batches(&db).await, 0);
    }
}
