//! Where a measurement is made: a file, or a server of its own with stock settings.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use ff_backend_postgres::Postgres;
use ff_backend_sqlite::Sqlite;
use ff_cluster::Cluster;
use ff_engine::Engine;
use tokio_postgres::{Client, NoTls};

/// A database to measure on.
pub enum Place {
    /// A file in a directory of its own.
    File(tempfile::TempDir),
    /// A server.
    Server(Cluster),
}

impl Place {
    /// A new file.
    pub fn file() -> anyhow::Result<Self> {
        Ok(Self::File(tempfile::tempdir().context("cannot make a directory")?))
    }

    /// A new server, stock but for `settings`.
    pub fn server(settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        Ok(Self::Server(Cluster::start(settings)?))
    }

    /// The file for plain SQL, or the server's URL.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::File(directory) => directory.path().join("bench.db"),
            Self::Server(cluster) => cluster.url().into(),
        }
    }

    /// The server, for what only a server can tell.
    pub fn cluster(&self) -> &Cluster {
        match self {
            Self::Server(cluster) => cluster,
            Self::File(_) => unreachable!("rows that ask for it are measured on servers only"),
        }
    }

    /// A connection of the benchmark's own to the server.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        let (client, connection) = tokio_postgres::connect(&self.cluster().url(), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// An empty store of ours: its URL.
    pub fn fresh(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        match self {
            Self::File(directory) => {
                format!("sqlite:{}", directory.path().join(format!("ours{number}.db")).display())
            }
            Self::Server(cluster) => format!("{}?schema=ours{number}", cluster.url()),
        }
    }
}

/// An engine on a store of ours.
pub async fn engine(url: &str) -> anyhow::Result<Engine> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        let options = ff_backend_sqlite::Options::new(path);
        return Ok(Engine::new(Arc::new(Sqlite::open(options)?)));
    }
    let options = ff_backend_postgres::Options::new(url);
    Ok(Engine::new(Arc::new(Postgres::open(options).await?)))
}
