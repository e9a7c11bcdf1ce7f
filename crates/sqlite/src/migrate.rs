//! Bringing a file's schema up to date, or refusing one that is newer than this binary.

use ff_core::backend::StoreError;
use rusqlite::Connection;

use crate::connection::store_error;
use crate::statements::schema;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The newest schema this binary knows.
pub const SCHEMA_VERSION: i64 = 1;

/// Tries when another process migrates the same file at the same moment.
const TRIES: u32 = 5;

/// Applies what is missing. Opening a file from several processes at once is fine.
pub fn migrate(db: &mut Connection) -> Result<(), StoreError> {
    let mut last = String::new();
    for _ in 0..TRIES {
        let found = version(db)?;
        if found > SCHEMA_VERSION {
            return Err(StoreError::SchemaTooNew { found, known: SCHEMA_VERSION });
        }
        if found == SCHEMA_VERSION {
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

/// The schema version of a file; 0 when it has none.
fn version(db: &Connection) -> Result<i64, StoreError> {
    let number = |sql| db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(store_error);
    if number(schema::exists)? == 0 { Ok(0) } else { number(schema::version) }
}
