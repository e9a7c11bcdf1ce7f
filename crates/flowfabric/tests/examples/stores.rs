//! The places that examples run on.

use flowfabric::FlowFabric;
use uuid::Uuid;

/// Where.
#[derive(Clone, Copy, Debug)]
pub enum At {
    File,
    Server,
}

/// A fabric of its own, and what it lives in.
pub struct Place {
    pub fabric: FlowFabric,
    _directory: tempfile::TempDir,
}

pub fn every_place() -> [At; 2] {
    [At::File, At::Server]
}

impl At {
    /// A new one.
    pub async fn open(self) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let url = match self {
            Self::File => format!("sqlite:{}", directory.path().join("fabric.db").display()),
            Self::Server => {
                let schema = format!("examples_{}", Uuid::now_v7().simple());
                let url = ff_cluster::shared().unwrap();
                let mark = if url.contains('?') { '&' } else { '?' };
                format!("{url}{mark}schema={schema}")
            }
        };
        Place { fabric: FlowFabric::open(&url).await.unwrap(), _directory: directory }
    }
}
