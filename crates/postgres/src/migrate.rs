//! Bringing a schema up to date, or refusing one that is newer than this binary.

use ff_core::backend::StoreError;
use ff_core::row::corrupt;
use tokio_postgres::types::{Kind, ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::codec::{ROW_TYPES, Types};
use crate::connection::{Address, Purpose, Trouble};
use crate::statements::schema;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The newest schema this binary knows.
pub const SCHEMA_VERSION: i64 = 8;

/// Tries when another process migrates the same schema at the same moment.
const TRIES: u32 = 10;

/// A migration spans transactions, and those of one client do not reach the same session there.
const UNPOOLED: &str = "the schema is not up to date, and a pooler cannot bring it there; \
    migrate at the address of the server itself, without pooled=true";

/// Where a schema stands, and what would bring it up to date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its version; 0 when it was never migrated.
    pub version: i64,
    /// The migrations that are missing, in order: number and name.
    pub missing: Vec<(i64, String)>,
}

/// Applies what is missing. Opening a schema from several processes at once is fine.
pub async fn migrate(address: &Address) -> Result<Types, StoreError> {
    let mut client = connect(address).await?;
    let mut last = String::new();
    for _ in 0..TRIES {
        if stand(&client, address).await?.missing.is_empty() {
            return types(&client, address).await;
        }
        if address.pooled {
            return Err(StoreError::Transport { cause: UNPOOLED.to_owned() });
        }
        let create = format!("create schema if not exists {}", address.quoted_schema());
        if !exists(&client, address).await?
            && let Err(error) = client.batch_execute(&create).await
            && !exists(&client, address).await?
        {
            // Nor did another process make it, which would have been fine.
            let cause = Trouble::from(error).into_error();
            return Err(StoreError::Transport {
                cause: format!("cannot make the schema: {cause}"),
            });
        }
        match embedded::migrations::runner().set_grouped(true).run_async(&mut client).await {
            Ok(_) => return types(&client, address).await,
            // The other process was faster, or is under way: look again.
            Err(error) => last = innermost(&error),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err(StoreError::Transport { cause: format!("cannot migrate the schema: {last}") })
}

/// What the server said, without what the layers above it made of that.
fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
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
        config.connect(address.tls.clone()).await.map_err(|error| failed(address, error.into()))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection for migrations ended");
        }
    });
    if address.pooled {
        // Looks around in one transaction, which ends with the connection.
        client
            .batch_execute(address.begin(Purpose::Read))
            .await
            .map_err(|error| failed(address, error.into()))?;
    }
    Ok(client)
}

fn failed(address: &Address, trouble: Trouble) -> StoreError {
    match trouble.into_error() {
        StoreError::Transport { cause } => {
            let place = address.place();
            let cause = format!("cannot connect to the database at {place}: {cause}");
            StoreError::Transport { cause }
        }
        other => other,
    }
}

async fn exists(client: &Client, address: &Address) -> Result<bool, StoreError> {
    Ok(one(client, schema::namespace, &[(&address.schema, Type::TEXT)]).await?.get(0))
}

/// The schema version; 0 when there is none.
async fn version(client: &Client, address: &Address) -> Result<i64, StoreError> {
    let there = one(client, schema::exists, &[(&address.schema, Type::TEXT)]).await?;
    if there.get::<_, i64>(0) == 0 {
        return Ok(0);
    }
    Ok(one(client, schema::version, &[]).await?.get(0))
}

/// The one row of an answer. Nothing is prepared: a pooler may stand in between.
async fn one(
    client: &Client,
    sql: &str,
    params: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Row, StoreError> {
    let rows = client.query_typed(sql, params).await;
    let mut rows = rows.map_err(|error| Trouble::from(error).into_error())?;
    rows.pop().ok_or_else(|| corrupt("schema", "nothing", "one row is expected"))
}

/// The row types of the schema, for connections that may not ask.
async fn types(client: &Client, address: &Address) -> Result<Types, StoreError> {
    let names: Vec<&str> = ROW_TYPES.to_vec();
    let params: [(&(dyn ToSql + Sync), Type); 2] =
        [(&address.schema, Type::TEXT), (&names, Type::TEXT_ARRAY)];
    let rows = client.query_typed(schema::types, &params).await;
    let rows = rows.map_err(|error| Trouble::from(error).into_error())?;
    let read = |row: &Row| {
        let (name, oid, array): (String, u32, u32) = (row.get(0), row.get(1), row.get(2));
        let own = address.schema.clone();
        let element = Type::new(name.clone(), oid, Kind::Composite(Vec::new()), own.clone());
        let array = Type::new(format!("_{name}"), array, Kind::Array(element), own);
        (name, array)
    };
    Ok(rows.iter().map(read).collect())
}
