//! The places that examples run on.

use ff_engine::Engine;
use flowfabric::FlowFabric;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Where.
#[derive(Clone, Copy, Debug)]
pub enum At {
    /// A SQLite file.
    File,
    /// A schema of a PostgreSQL server.
    Server,
    /// A server of ours before a SQLite file.
    Http,
}

/// A fabric of its own, and what it lives in.
pub struct Place {
    pub fabric: FlowFabric,
    url: String,
    behind: Option<(FlowFabric, JoinSet<()>)>,
    _directory: tempfile::TempDir,
}

pub fn every_place() -> [At; 3] {
    [At::File, At::Server, At::Http]
}

impl Place {
    /// What decides behind it.
    pub fn engine(&self) -> &Engine {
        let behind = self.behind.as_ref().map_or(&self.fabric, |(fabric, _)| fabric);
        behind.engine().unwrap()
    }

    /// Where others find it.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl At {
    /// A new one.
    pub async fn open(self) -> Place {
        self.open_with(ff_server::Limits::default()).await
    }

    /// A new one; if it is a server, within these bounds.
    pub async fn open_with(self, limits: ff_server::Limits) -> Place {
        self.open_within(limits, None).await
    }

    /// The same; a server asks for a token.
    pub async fn open_within(
        self,
        limits: ff_server::Limits,
        token: Option<&'static str>,
    ) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let url = match self {
            Self::File | Self::Http => {
                format!("sqlite:{}", directory.path().join("fabric.db").display())
            }
            Self::Server => {
                let schema = format!("examples_{}", Uuid::now_v7().simple());
                let url = ff_cluster::shared().unwrap();
                let mark = if url.contains('?') { '&' } else { '?' };
                format!("{url}{mark}schema={schema}")
            }
        };
        let fabric = FlowFabric::open(&url).await.unwrap();
        let Self::Http = self else {
            return Place { fabric, url, behind: None, _directory: directory };
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut options = ff_server::Options::new(fabric.engine().unwrap().clone(), "sqlite");
        options.limits = limits;
        options.token = token.map(|token| ff_server::Token::new(token).unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async {
            ff_server::serve(listener, options, std::future::pending()).await.unwrap();
        });
        let behind = Some((fabric, serving));
        let fabric = FlowFabric::connect(&url, token.map(str::to_owned)).unwrap();
        Place { fabric, url, behind, _directory: directory }
    }
}
