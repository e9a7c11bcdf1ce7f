//! Tests of workers, steps and clients in virtual time: the store's clock follows the runtime's.
#![allow(clippy::unwrap_used, missing_docs)]

mod children;
mod clients;
mod failures;
mod flows;
mod leases;
mod outcomes;
mod steps;
mod stops;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ff_conformance::{Dice, Model};
use ff_core::time::Clock;
use ff_core::{Config, Millis, WorkFilter};
use ff_engine::Engine;
use ff_sdk::{Client, Worker};
use tokio::time::Instant;

/// Long, in virtual time.
const HOUR: Duration = Duration::from_hours(1);

/// The runtime's clock, from a time of day on.
struct Runtime(Instant, Millis);

impl Clock for Runtime {
    fn now(&self) -> Millis {
        self.1.plus(u64::try_from(self.0.elapsed().as_millis()).unwrap())
    }
}

/// An engine before a model, with its duties, and a client.
fn open() -> (Engine, Client) {
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let today = Millis(i64::try_from(today.as_millis()).unwrap());
    let clock = Arc::new(Runtime(Instant::now(), today));
    let model = Model::new(Config::default(), clock, Box::new(Dice::new(1)));
    let engine = Engine::new(Arc::new(model));
    let duties = engine.start_duties(&WorkFilter::default());
    // For as long as the test runs.
    std::mem::forget(duties);
    (engine.clone(), Client::new(Arc::new(engine)))
}

fn worker(client: &Client) -> Worker {
    client.worker("default").name("test")
}
