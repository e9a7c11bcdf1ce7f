//! Where FlowFabric is: a database that this process opens itself, or a server.

use std::fmt;
use std::sync::Arc;

use ff_core::Code;
use ff_engine::Engine;
use flowfabric::{Client, Database, Remote, TOKEN, VARIABLE};
use tempfile::TempDir;

use crate::failure::{Exit, Failure};

/// Where a server of this machine listens unless told.
pub const DEFAULT: &str = "http://127.0.0.1:7100";

/// What was said about where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `--url`.
    Option,
    /// `FF_URL`.
    Environment,
    /// Nothing.
    Default,
}

impl Source {
    /// As people say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Option => "--url",
            Self::Environment => VARIABLE,
            Self::Default => "default",
        }
    }
}

/// Where FlowFabric is, and who said so.
pub struct Place {
    url: String,
    source: Source,
}

impl Place {
    /// What the option says, or the environment, or nobody.
    pub fn of(option: Option<String>) -> Self {
        let named = std::env::var(VARIABLE).ok().filter(|url| !url.is_empty());
        let (url, source) = match (option, named) {
            (Some(url), _) => (url, Source::Option),
            (None, Some(url)) => (url, Source::Environment),
            (None, None) => (DEFAULT.to_owned(), Source::Default),
        };
        Self { url, source }
    }

    /// Who named it.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Whether it is a server.
    pub fn is_server(&self) -> bool {
        self.url.starts_with("http://") || self.url.starts_with("https://")
    }

    /// The database that was named; otherwise a new one in a directory of its own, which is gone
    /// when it is dropped.
    pub fn database_or_new(&self) -> anyhow::Result<(Database, Option<TempDir>)> {
        match self.source {
            Source::Option | Source::Environment => Ok((Database::parse(&self.url)?, None)),
            Source::Default => {
                let directory = tempfile::Builder::new().prefix("flowfabric-").tempdir()?;
                let path = directory.path().join("fabric.db");
                let database = Database::parse(&format!("sqlite:{}", path.display()))?;
                Ok((database, Some(directory)))
            }
        }
    }

    /// The database that a command cannot do without.
    pub fn database(&self, command: &str) -> anyhow::Result<Database> {
        if self.is_server() {
            let said = format!("ff {command} works on a database, and none is named");
            let next = format!("ff {command} --url sqlite:fabric.db, or postgres://…");
            return Err(Failure::new(Exit::Usage, said).next(next).into());
        }
        Ok(Database::parse(&self.url)?)
    }

    /// A client. A database must have been made ready before: a name with a slip in it is refused
    /// instead of becoming a new file.
    pub async fn client(&self) -> anyhow::Result<Client> {
        if self.is_server() {
            return Ok(Client::new(Arc::new(Remote::new(&self.url, token())?)));
        }
        let database = Database::parse(&self.url).map_err(|error| {
            Failure::new(Exit::Usage, error.to_string())
                .code(Code::InvalidInput.as_str())
                .next("or name a server: --url http://127.0.0.1:7100")
        })?;
        if database.standing().await?.version == 0 {
            let said = format!("there is no FlowFabric in {database}");
            let next = format!("make one: {}", self.ff("migrate"));
            return Err(Failure::new(Exit::NotFound, said).next(next).into());
        }
        // Only whoever stays does the duties.
        Ok(Client::new(Arc::new(Engine::new(database.open().await?))))
    }

    /// A command line for the same place.
    pub fn ff(&self, command: &str) -> String {
        match self.source {
            Source::Option => format!("ff {command} --url {self}"),
            Source::Environment | Source::Default => format!("ff {command}"),
        }
    }
}

/// Without the password in it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&flowfabric::masked(&self.url))
    }
}

/// The token that the environment holds, if any.
pub fn token() -> Option<String> {
    std::env::var(TOKEN).ok().filter(|token| !token.is_empty())
}
