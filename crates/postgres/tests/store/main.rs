//! Tests of the Postgres store: the suite, random histories, and what only a server can get wrong.
#![allow(clippy::unwrap_used, missing_docs)]

mod clock;
mod cut;
mod dump;
mod everyday;
#[path = "../../../sqlite/tests/store/faults.rs"]
mod faults;
mod feed;
mod feed_crashes;
mod flow_races;
#[path = "../../../sqlite/tests/store"]
mod file {
    pub mod dump;
}
mod flows;
mod histories;
mod late;
mod line;
mod listings;
mod locked;
mod places;
mod plans;
mod pooled;
mod races;
mod retention;
mod rows;
mod server;
mod starts;
mod stores;
mod tls;
mod trouble;
mod waits;
mod wakes;

use std::sync::Arc;

use ff_backend_postgres::Postgres;
use ff_conformance::{Dial, Dice, Store};

use server::Schema;

/// An empty schema on a dial.
fn open(clock: Arc<Dial>) -> Store {
    open_with(clock, "")
}

/// The same over few connections: opening those is most of what a short history takes.
fn open_few(clock: Arc<Dial>) -> Store {
    open_with(clock, "?connections=few")
}

fn open_with(clock: Arc<Dial>, how: &str) -> Store {
    let schema = Arc::new(Schema::empty());
    let mut options = schema.options(clock, Box::new(Dice::new(1)));
    options.url.push_str(how);
    let backend = Arc::new(server::wait(async move { Postgres::open(options).await.unwrap() }));
    let dumped = Arc::clone(&schema);
    let dump = Box::new(move || dump::dump(&dumped));
    Store { backend, dump, keep: Box::new(schema) }
}

mod conformance {
    ff_conformance::suite!(crate::open);
}
