//! The server of the test run, and a schema of it for each store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ff_backend_postgres::{Options, Postgres};
use ff_core::time::{Clock, Entropy};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

/// The URL of the server.
pub fn url() -> &'static str {
    ff_cluster::shared().unwrap()
}

/// A runtime beside the one of the test, so that a test can wait for it.
fn aside() -> &'static Runtime {
    static ASIDE: OnceLock<Runtime> = OnceLock::new();
    ASIDE.get_or_init(|| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.unwrap()
    })
}

/// Waits for a future, inside or outside of a runtime.
pub fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, answer) = std::sync::mpsc::channel();
    aside().spawn(async move { drop(done.send(work.await)) });
    answer.recv().unwrap()
}

/// A connection of the test's own.
pub async fn connect() -> Client {
    let (client, connection) = tokio_postgres::connect(url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs SQL that no backend would.
pub fn execute(sql: String) {
    wait(async move { connect().await.batch_execute(&sql).await.unwrap() });
}

/// Schemas that were used and can be emptied.
static USED: Mutex<Vec<String>> = Mutex::new(Vec::new());

const TABLES: [&str; 25] = [
    "ff_exec_core",
    "ff_lease",
    "ff_payload",
    "ff_step",
    "ff_attempt",
    "ff_queue",
    "ff_ready",
    "ff_timer",
    "ff_retention",
    "ff_tag",
    "ff_event",
    "ff_idempotency",
    "ff_consumer",
    "ff_flow_core",
    "ff_edge",
    "ff_edge_group",
    "ff_dispatch",
    "ff_pending_cancel_groups",
    "ff_cancel_backlog",
    "ff_cancel_backlog_member",
    "ff_suspension_current",
    "ff_waitpoint",
    "ff_signal",
    "ff_suspend_key",
    "ff_signing_key",
];

/// A schema that is used by one test at a time.
pub struct Schema {
    /// Its name.
    pub name: String,
}

impl Schema {
    /// One with empty tables.
    pub fn empty() -> Self {
        if let Some(name) = USED.lock().unwrap().pop() {
            let mut sql = format!("set search_path = {name};");
            for table in TABLES {
                sql.extend(["delete from ", table, ";"]);
            }
            sql.push_str("alter sequence ff_event_seq_seq restart;");
            execute(sql);
            return Self { name };
        }
        let absent = Self::absent();
        let url = format!("{}?schema={}", url(), absent.name);
        wait(async move { Postgres::migrate(&url).await.unwrap() });
        absent
    }

    /// A name that no schema has yet.
    pub fn absent() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // A server may remember the schemas of earlier runs, whose processes had the same numbers.
        static RUN: OnceLock<u64> = OnceLock::new();
        let (run, number) = (RUN.get_or_init(rand::random), NEXT.fetch_add(1, Ordering::SeqCst));
        Self { name: format!("t_{run:016x}_{number}") }
    }

    /// How to open it.
    pub fn options(&self, clock: Arc<dyn Clock>, entropy: Box<dyn Entropy>) -> Options {
        let schema = Some(self.name.clone());
        Options { schema, clock: Some(clock), entropy, ..Options::new(url()) }
    }

    /// Runs SQL on its tables.
    pub fn tamper(&self, sql: &str) {
        execute(format!("set search_path = {}; {sql}", self.name));
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        USED.lock().unwrap().push(self.name.clone());
    }
}
