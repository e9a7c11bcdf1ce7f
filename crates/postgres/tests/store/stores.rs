//! Several stores on one schema, and connections of the test's own beside them.

use std::sync::Arc;

use ff_backend_postgres::{Options, Postgres};
use ff_conformance::world::worker;
use ff_conformance::{Dial, Dice, Store, World};
use ff_core::backend::{Backend, ClaimAsk};
use ff_core::decide::create::Create;
use ff_core::ids::ExecutionId;
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

use crate::dump;
use crate::server::{self, Schema};

/// A schema, and the clock of every store on it.
pub struct Stores {
    /// The schema.
    pub schema: Arc<Schema>,
    /// The clock.
    pub clock: Arc<Dial>,
}

impl Stores {
    /// On a schema with empty tables.
    pub fn new() -> Self {
        Self { schema: Arc::new(Schema::empty()), clock: Arc::new(Dial::default()) }
    }

    /// How another store is opened.
    pub fn options(&self) -> Options {
        self.schema.options(Arc::clone(&self.clock) as _, Box::new(Dice::new(1)))
    }

    /// Another store.
    pub async fn open(&self) -> World {
        self.world(self.options()).await
    }

    /// Another store, opened in some way.
    pub async fn world(&self, options: Options) -> World {
        let backend = Arc::new(Postgres::open(options).await.unwrap());
        let schema = Arc::clone(&self.schema);
        let dumped = Arc::clone(&schema);
        let dump = Box::new(move || dump::dump(&dumped));
        World::new(Store { backend, dump, keep: Box::new(schema) }, Arc::clone(&self.clock))
    }

    /// A connection of the test's own to the same schema.
    pub async fn connect(&self) -> Client {
        let client = server::connect().await;
        client.batch_execute(&format!("set search_path = {}", self.schema.name)).await.unwrap();
        client
    }
}

/// A number that nothing else has, not even what an earlier run left on the server.
pub fn unique() -> Uuid {
    Uuid::from_u128(rand::random())
}

/// A creation whose id no other store's world draws.
pub fn draft(world: &World) -> Create {
    Create { id: ExecutionId::solo(unique()), ..world.draft() }
}

/// An ask whose id no other store's world draws.
pub fn ask(lane: &str, max: u32) -> ClaimAsk {
    let lanes = vec![ff_conformance::world::lane(lane)];
    ClaimAsk { max, ..ClaimAsk::new(unique(), worker("w1"), lanes) }
}

/// Creates what the draft says, through a store.
pub async fn create(backend: &dyn Backend, draft: Create) -> ExecutionId {
    let id = draft.id;
    let outcomes = backend.apply(vec![draft.into()]).await.unwrap();
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    id
}

/// A connection of the test's own to another database of the same server.
pub async fn connect_to(database: &str) -> Client {
    let mut config: tokio_postgres::Config = server::url().parse().unwrap();
    config.dbname(database);
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
