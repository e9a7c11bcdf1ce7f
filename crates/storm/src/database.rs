//! The database of a storm: a throw-away PostgreSQL server or a SQLite file, and SQL on it by hand.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ff_cluster::Cluster;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};

use crate::Store;
use crate::time::sleep_ms;

/// What was committed is there after a kill: the machine itself does not crash. What was not stays in
/// memory for longer than usual, so that more is lost.
const SETTINGS: &[(&str, &str)] = &[
    ("fsync", "off"),
    ("wal_writer_delay", "10s"),
    ("dynamic_shared_memory_type", "mmap"),
    ("max_connections", "200"),
];
/// How long a session by hand waits for the lock of a SQLite file.
const BUSY: Duration = Duration::from_secs(5);

/// Lets others read, but not write.
const HOLD_WRITERS: &str = include_str!("../queries/hold_writers.sql");
/// Takes a number for a transaction that aborts.
const WASTE_NUMBER: &str = include_str!("../queries/waste_number.sql");
/// Locks some rows that are being worked on.
const LOCK_EXECUTIONS: &str = include_str!("../queries/lock_executions.sql");
/// Locks some flows.
const LOCK_FLOWS: &str = include_str!("../queries/lock_flows.sql");
/// Locks some leases.
const LOCK_LEASES: &str = include_str!("../queries/lock_leases.sql");
/// Locks what some executions wait for.
const LOCK_GROUPS: &str = include_str!("../queries/lock_groups.sql");

/// A database.
pub enum Database {
    /// A server of our own; `None` while it is restarted.
    Postgres { port: u16, cluster: Mutex<Option<Cluster>> },
    /// A file.
    Sqlite(PathBuf),
}

impl Database {
    /// A new, empty one.
    pub async fn start(store: Store, directory: &Path) -> anyhow::Result<Self> {
        match store {
            Store::Sqlite => Ok(Self::Sqlite(directory.join("storm.db"))),
            Store::Postgres => {
                let started = tokio::task::spawn_blocking(|| Cluster::start(SETTINGS)).await?;
                let cluster = started.map_err(|why| anyhow::anyhow!("{why}"))?;
                let port = cluster.port();
                Ok(Self::Postgres { port, cluster: Mutex::new(Some(cluster)) })
            }
        }
    }

    /// Where the server listens, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Postgres { port, .. } => Some(SocketAddr::from(([127, 0, 0, 1], *port))),
            Self::Sqlite(_) => None,
        }
    }

    /// How to open it, over a line if there is one.
    pub fn url(&self, line: Option<SocketAddr>) -> String {
        match self {
            Self::Postgres { port, .. } => {
                let port = line.map_or(*port, |line| line.port());
                format!("postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable")
            }
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
        }
    }

    /// Ends the server as `-m immediate` does, without a last word to its log, and starts it again.
    pub async fn restart(&self, away_ms: u64) -> anyhow::Result<()> {
        let Self::Postgres { cluster, .. } = self else { return Ok(()) };
        let mut slot = cluster.lock().await;
        let mut running = slot.take().context("it is not being restarted")?;
        let away = Duration::from_millis(away_ms);
        let restarted = tokio::task::spawn_blocking(move || {
            let done = running.kill().and_then(|()| {
                std::thread::sleep(away);
                running.restart()
            });
            (running, done)
        });
        let (running, done) = restarted.await?;
        *slot = Some(running);
        done.map_err(|why| anyhow::anyhow!("{why}"))
    }

    /// Holds locks that everybody needs, for a while: rows on a server, everything in a file.
    pub async fn hold_locks(&self, rows: u32, ms: u64) -> anyhow::Result<()> {
        match self {
            Self::Postgres { .. } => {
                let client = self.session().await?;
                client.batch_execute("begin").await?;
                for statement in [LOCK_EXECUTIONS, LOCK_FLOWS, LOCK_LEASES, LOCK_GROUPS] {
                    client.query(statement, &[&i64::from(rows)]).await?;
                }
                sleep_ms(ms).await;
                client.batch_execute("rollback").await?;
                Ok(())
            }
            Self::Sqlite(path) => {
                let path = path.clone();
                let held = move || {
                    let file = rusqlite::Connection::open(path)?;
                    file.busy_timeout(BUSY)?;
                    file.execute_batch("begin immediate")?;
                    std::thread::sleep(Duration::from_millis(ms));
                    file.execute_batch("rollback")
                };
                Ok(tokio::task::spawn_blocking(held).await??)
            }
        }
    }

    /// Lets nobody write for as long as the session is kept, and has transactions take numbers and
    /// abort for a while: readers see numbers that a crash makes unused again.
    pub async fn waste_numbers(&self, ms: u64) -> anyhow::Result<Option<Client>> {
        if let Self::Sqlite(_) = self {
            return Ok(None);
        }
        let (holder, waster) = (self.session().await?, self.session().await?);
        // Another transaction may hold these in another order, and we are the one to give up then.
        if holder.batch_execute(HOLD_WRITERS).await.is_err() {
            return Ok(None);
        }
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(ms) {
            waster.batch_execute(WASTE_NUMBER).await?;
            sleep_ms(5).await;
        }
        Ok(Some(holder))
    }

    /// What a statement finds: a word, a number and an example in each row.
    pub async fn find(&self, statement: &str) -> anyhow::Result<Vec<(String, i64, String)>> {
        match self {
            Self::Postgres { .. } => {
                let client = self.session().await?;
                let rows = client.query(&statement.replace("ID(", "concat("), &[]).await?;
                let read = |row: &tokio_postgres::Row| -> Result<_, tokio_postgres::Error> {
                    let example: Option<String> = row.try_get(2)?;
                    Ok((row.try_get(0)?, row.try_get(1)?, example.unwrap_or_default()))
                };
                Ok(rows.iter().map(read).collect::<Result<_, _>>()?)
            }
            Self::Sqlite(path) => {
                let file = rusqlite::Connection::open(path)?;
                file.busy_timeout(BUSY)?;
                let mut prepared = file.prepare(&statement.replace("ID(", "hex("))?;
                let read = |row: &rusqlite::Row<'_>| {
                    let example: Option<String> = row.get(2)?;
                    Ok((row.get(0)?, row.get(1)?, example.unwrap_or_default()))
                };
                Ok(prepared.query_map([], read)?.collect::<Result<_, _>>()?)
            }
        }
    }

    async fn session(&self) -> anyhow::Result<Client> {
        let (client, connection) = tokio_postgres::connect(&self.url(None), NoTls).await?;
        // It ends with the client; why is told to the client.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }
}
