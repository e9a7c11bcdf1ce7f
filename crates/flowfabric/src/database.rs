//! The database that a URL names: a SQLite file, or a schema of a PostgreSQL server.
//!
//! What must stay true: no message shows a password. A database is printed as its [`Display`]
//! says, never as the URL that was given.
//!
//! [`Display`]: fmt::Display

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use ff_backend_postgres::Postgres;
use ff_backend_sqlite::Sqlite;
use ff_core::{Backend, Code, Rejection};
use ff_sdk::Error;

/// The environment variable that names the database or server, for those who must not show a
/// password among their arguments.
pub const VARIABLE: &str = "FF_URL";

/// A database; nothing is opened yet.
#[derive(Clone)]
pub struct Database {
    url: String,
    place: Place,
}

#[derive(Clone)]
enum Place {
    File(PathBuf),
    Server,
}

/// The migrations that a schema lacks, and its version.
pub struct Standing {
    /// Its version; 0 when it was never migrated.
    pub version: i64,
    /// Number and name, in order.
    pub missing: Vec<(i64, String)>,
}

impl Database {
    /// Reads `sqlite:<path>` or `postgres://…`.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let file = url.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path));
        let server = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        let place = match file.filter(|path| !path.is_empty() && !path.starts_with(':')) {
            Some(path) => Place::File(path.into()),
            None if server => Place::Server,
            None => {
                let why = "names no database: use sqlite:<path>, for example sqlite:fabric.db, or \
                    postgres://user:password@host:port/database?schema=name";
                return Err(Rejection::invalid(Code::InvalidInput, "url", masked(url), why).into());
            }
        };
        Ok(Self { url: url.to_owned(), place })
    }

    /// The URL, password and all.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens it; migrations are applied.
    pub async fn open(&self) -> Result<Arc<dyn Backend>, Error> {
        let opened: Result<Arc<dyn Backend>, _> = match &self.place {
            Place::File(path) => {
                let options = ff_backend_sqlite::Options::new(path);
                Sqlite::open(options).map(|store| Arc::new(store) as _)
            }
            Place::Server => {
                let options = ff_backend_postgres::Options::new(&self.url);
                Box::pin(Postgres::open(options)).await.map(|store| Arc::new(store) as _)
            }
        };
        opened.map_err(|error| Error::from(error).while_doing(format!("open {self}")))
    }

    /// Where its schema stands. Changes nothing.
    pub async fn standing(&self) -> Result<Standing, Error> {
        let stands = match &self.place {
            Place::File(path) => Sqlite::standing(path)
                .map(|found| Standing { version: found.version, missing: found.missing }),
            Place::Server => Box::pin(Postgres::standing(&self.url))
                .await
                .map(|found| Standing { version: found.version, missing: found.missing }),
        };
        stands.map_err(|error| {
            Error::from(error).while_doing(format!("look at the schema of {self}"))
        })
    }

    /// Brings its schema up to date.
    pub async fn migrate(&self) -> Result<(), Error> {
        let migrated = match &self.place {
            Place::File(path) => Sqlite::migrate(path),
            Place::Server => Box::pin(Postgres::migrate(&self.url)).await,
        };
        migrated.map_err(|error| Error::from(error).while_doing(format!("migrate {self}")))
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File(_) => f.write_str(&self.url),
            Place::Server => f.write_str(&masked(&self.url)),
        }
    }
}

/// A URL without the passwords in it. One that is malformed rather loses too much.
pub fn masked(url: &str) -> String {
    const MASK: &str = "***";
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // A password may hold any character that is not escaped by mistake, `?` and `@` included.
    let head = rest.find('?').filter(|end| rest[..*end].contains('@')).unwrap_or(rest.len());
    let (user, place) = match rest[..head].rfind('@') {
        Some(end) => (&rest[..end], &rest[end..]),
        None => ("", rest),
    };
    let user = match user.split_once(':') {
        Some((name, _)) => format!("{name}:{MASK}"),
        None => user.to_owned(),
    };
    let (place, query) = place.split_once('?').unwrap_or((place, ""));
    let shown = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}={MASK}"),
        Some(_) | None => pair.to_owned(),
    });
    let query = shown.collect::<Vec<_>>().join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{user}{place}{mark}{query}")
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://ada:secret@db:5432/shop", "postgres://ada:***@db:5432/shop"),
            ("postgres://ada@db:5432/shop", "postgres://ada@db:5432/shop"),
            ("postgres://db/shop?schema=a", "postgres://db/shop?schema=a"),
            ("postgres://ada:s@cr@t@db/shop?schema=a", "postgres://ada:***@db/shop?schema=a"),
            ("postgres://ada:s/cr:t@db", "postgres://ada:***@db"),
            ("postgres://ada:se?cret@db/shop", "postgres://ada:***@db/shop"),
            (
                "postgresql://db/shop?user=ada&password=secret&schema=a",
                "postgresql://db/shop?user=ada&password=***&schema=a",
            ),
            ("mysql://ada:secret@db", "mysql://ada:***@db"),
            ("sqlite:fabric.db", "sqlite:fabric.db"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
