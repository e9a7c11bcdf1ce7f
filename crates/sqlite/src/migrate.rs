//! Bringing a file's schema up to date, or refusing one that is newer than this binary.

use std::path::Path;

use ff_core::backend::StoreError;
use rusqlite::Connection;

use crate::connection::{self, store_error};
use crate::statements::schema;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The newest schema this binary knows.
pub const SCHEMA_VERSION: i64 = 5;

/// Tries when another process migrates the same file at the same moment.
const TRIES: u32 = 5;

/// Where a file stands, and what would bring it up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its version; 0 when it was never migrated.
    pub version: i64,
    /// The migrations that are missing, in order: number and name.
    pub missing: Vec<(i64, String)>,
}

/// Applies what is missing. Opening a file from several processes at once is fine.
pub fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    let mut last = String::new();
    for _ in 0..TRIES {
        if stand(db)?.missing.is_empty() {
            return Ok(());
        }
        match embedded::migrations::runner().set_grouped(true).run(db) {
            Ok(_) => return Ok(()),
            // The other process was faster, or holds the file: look again.
            Err(error) => last = error.to_string(),
        }
    }
    Err(StoreError::Transport { cause: format!("cannot migrate the schema: {last}") })
}

/// Where the file stands; one that is newer than this binary is refused, one that does not exist
/// is not created.
pub fn standing(path: &Path) -> Result<Standing, StoreError> {
    let there = path.try_exists().map_err(|why| StoreError::Transport {
        cause: format!("cannot open {}: {why}", path.display()),
    })?;
    if there { stand(&connection::look(path)?) } else { since(0) }
}

fn stand(db: &Connection) -> Result<Standing, StoreError> {
    since(version(db)?)
}

/// What a file of this version lacks.
fn since(version: i64) -> Result<Standing, StoreError> {
    if version > SCHEMA_VERSION {
        return Err(StoreError::SchemaTooNew { found: version, known: SCHEMA_VERSION });
    }
    let all = embedded::migrations::runner();
    let known = all.get_migrations().iter();
    let mut missing: Vec<_> = known
        .map(|migration| (i64::from(migration.version()), migration.name().to_owned()))
        .filter(|(number, _)| *number > version)
        .collect();
    missing.sort();
    Ok(Standing { version, missing })
}

/// The schema version of a file; 0 when it has none.
fn version(db: &Connection) -> Result<i64, StoreError> {
    let number = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(store_error);
    if number(schema::exists)? == 0 { Ok(0) } else { number(schema::version) }
}
