//! Bringing a schema up to date, or refusing one that is newer than this binary.

use ff_core::backend::StoreError;
use tokio_postgres::Client;

use crate::connection::{Address, Purpose, Trouble};
use crate::statements::schema;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The newest schema this binary knows.
pub const SCHEMA_VERSION: i64 = 1;

/// Tries when another process migrates the same schema at the same moment.
const TRIES: u32 = 10;

/// Where a schema stands, and what would bring it up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its version; 0 when it was never migrated.
    pub version: i64,
    /// The migrations that are missing, in order: number and name.
    pub missing: Vec<(i64, String)>,
}

/// Applies what is missing. Opening a schema from several processes at once is fine.
pub async fn migrate(address: &Address) -> Result<(), StoreError> {
    let mut client = connect(address).await?;
    let mut last = String::new();
    for _ in 0..TRIES {
        if stand(&client, address).await?.missing.is_empty() {
            return Ok(());
        }
        let create = format!("create schema if not exists {}", address.quoted_schema());
        if !exists(&client, address).await? {
            // Another process may be just as far.
            let _ = client.batch_execute(&create).await;
        }
        match embedded::migrations::runner().set_grouped(true).run_async(&mut client).await {
            Ok(_) => return Ok(()),
            // The other process was faster, or is under way: look again.
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err(StoreError::Transport { cause: format!("cannot migrate the schema: {last}") })
}

/// Where the schema stands; one that is newer than this binary is refused.
pub async fn standing(address: &Address) -> Result<Standing, StoreError> {
    let client = connect(address).await?;
    stand(&client, address).await
}

async fn stand(client: &Client, address: &Address) -> Result<Standing, StoreError> {
    let version = version(client, address).await?;
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

/// A connection of its own: migrating is rare, and must not be shared.
async fn connect(address: &Address) -> Result<Client, StoreError> {
    let config = address.config(Purpose::Read);
    let (client, connection) =
        config.connect(address.tls.clone()).await.map_err(|error| failed(error.into()))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection for migrations ended");
        }
    });
    if address.pooled {
        let path = format!("set search_path = {}", address.quoted_schema());
        client.batch_execute(&path).await.map_err(|error| failed(error.into()))?;
    }
    Ok(client)
}

fn failed(trouble: Trouble) -> StoreError {
    match trouble.into_error() {
        StoreError::Transport { cause } => {
            StoreError::Transport { cause: format!("cannot connect to the database: {cause}") }
        }
        other => other,
    }
}

async fn exists(client: &Client, address: &Address) -> Result<bool, StoreError> {
    let found = client.query_one(schema::namespace, &[&address.schema]).await;
    Ok(found.map_err(|error| Trouble::from(error).into_error())?.get(0))
}

/// The schema version; 0 when there is none.
async fn version(client: &Client, address: &Address) -> Result<i64, StoreError> {
    let wrong = |error| Trouble::from(error).into_error();
    let there = client.query_one(schema::exists, &[&address.schema]).await.map_err(wrong)?;
    if there.get::<_, i64>(0) == 0 {
        return Ok(0);
    }
    let row = client.query_one(schema::version, &[]).await.map_err(wrong)?;
    Ok(row.get(0))
}
