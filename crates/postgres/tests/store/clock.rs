//! The clock of a store over a slow line: what an answer says is worth no more than it is fresh.

use std::sync::Arc;
use std::time::Duration;

use ff_backend_postgres::{Options, Postgres};
use ff_conformance::Dial;
use ff_conformance::world::worker;
use ff_core::backend::{Backend, ClaimAsk, Due, Duty, WorkFilter};
use ff_core::time::{Clock, Millis};
use serde_json::json;
use tokio_postgres::Client;

use crate::line::Line;
use crate::server;
use crate::stores::{Stores, create, draft, unique};

const LATE: Duration = Duration::from_millis(800);
/// More often than a store asks when it is opened.
const ALWAYS: u32 = 1_000;

/// A store on the clock of the database, behind a line.
async fn remote(stores: &Stores, line: &Line) -> Postgres {
    let options = Options { url: line.url(), clock: None, ..stores.options() };
    Postgres::open(options).await.unwrap()
}

/// How far the store's clock is from the database's, in milliseconds.
async fn off(store: &Postgres, db: &Client) -> i64 {
    let now = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
    let there: i64 = db.query_one(now, &[]).await.unwrap().get(0);
    store.now().await.unwrap().0 - there
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_answer_does_not_set_the_clock() {
    let stores = Stores::new();
    let (line, db) = (Line::new().await, server::connect().await);
    line.stall("schema/now", 1, LATE);
    let store = remote(&stores, &line).await;
    let off = off(&store, &db).await;
    assert!(off.abs() < 100, "the clock is off by {off} ms");
}

/// From far away, the database's time is known within bounds: leases are taken so much later, and are taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_answered_late_takes_no_lease_before_its_time() {
    let stores = Stores::new();
    let (line, db) = (Line::new().await, server::connect().await);
    line.stall("schema/now", ALWAYS, Duration::from_millis(60));
    let store = Arc::new(remote(&stores, &line).await);
    let world = stores.open().await;
    create(&*store, draft(&world)).await;
    let lanes = vec![ff_conformance::world::lane("default")];
    let ask = ClaimAsk { max: 1, lease_ttl_ms: 40, ..ClaimAsk::new(unique(), worker("w1"), lanes) };
    let claims = store.claim(&[ask]).await.unwrap();
    // What the store wrote it took from a clock that may be off by half of a round trip.
    let until = claims.now.plus(40);
    let due = async || {
        let due = store.due(Duty::LeaseExpiry, &WorkFilter::default(), 10).await.unwrap();
        due.commands.len()
    };
    let taken = async {
        while due().await == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), taken).await.expect("it is taken in the end");
    assert!(store.now().await.unwrap() >= until.plus(30), "later by what the clock may be off");
    assert!(off(&store, &db).await.abs() <= 60);
}

/// A clock that may be wrong by anything.
struct Unsure(Arc<Dial>);

impl Clock for Unsure {
    fn now(&self) -> Millis {
        self.0.now()
    }

    fn error_ms(&self) -> Option<u64> {
        None
    }
}

#[tokio::test]
async fn a_clock_that_nothing_vouches_for_takes_no_lease() {
    let stores = Stores::new();
    let unsure: Arc<dyn Clock> = Arc::new(Unsure(Arc::clone(&stores.clock)));
    let unsure = stores.world(Options { clock: Some(unsure), ..stores.options() }).await;
    let sure = stores.open().await;
    let timeouts = json!({"attempt_timeout_ms": 500, "execution_deadline_ms": 800});
    sure.running(json!({"timeout_policy": timeouts})).await;
    sure.finished(json!({"retention_ms": 0})).await;
    sure.pass(86_400_000);
    for duty in [Duty::LeaseExpiry, Duty::AttemptTimeout, Duty::Deadline] {
        assert_eq!(unsure.due(duty, 10).await, Due::default(), "{duty:?}");
        assert_eq!(sure.due(duty, 10).await.commands.len(), 1, "{duty:?}");
    }
    assert_eq!(unsure.due(Duty::Retention, 10).await.commands.len(), 1, "it takes no lease");
}
