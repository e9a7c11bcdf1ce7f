//! Serves the HTTP protocol of `ff-wire` before one engine: executions, flows, suspensions, claims,
//! reports, events, metrics and the pages that explain them.
//!
//! What must stay true:
//!
//! * the server never decides: a handler reads a request, asks the engine, and writes the answer;
//! * whatever goes wrong, also before a handler is reached, is answered as a problem with a code;
//! * a client that goes away drops the future that served it: a claim gives its work back;
//! * everything that waits ends when the server closes, and everything else has a time limit;
//! * without a token nobody but this machine is served, except who brings the token of a waitpoint
//!   or a link, and then only with that one signal;
//! * what opens something (tokens, links, secrets) is in no log.

mod auth;
mod batch;
mod claims;
mod consumers;
mod creation;
mod docs;
mod drain;
mod events;
mod executions;
mod flows;
mod health;
mod lanes;
mod leases;
mod links;
mod metrics;
mod openapi;
mod options;
mod page;
mod problem;
mod reports;
mod request;
mod responses;
mod router;
mod serve;
mod signals;
mod signing_keys;
mod steering;
mod steps;
mod stream;
mod suspensions;
mod waitpoints;

use std::sync::Arc;

use ff_core::command::Operation;
use ff_core::decide::Decide;
use ff_engine::Engine;

pub use auth::{Exposed, MalformedToken, Token, check_address};
pub use openapi::document;
pub use options::{Limits, MalformedKey, Options, SigningKey};
pub use request::parse as read_json;
pub use router::router;
pub use serve::{Drained, ServeError, seed, serve};

use auth::Door;
use drain::Drain;
use metrics::Metrics;
use problem::Refused;

/// What every handler has at hand.
#[derive(Clone)]
struct Server(Arc<Shared>);

struct Shared {
    engine: Engine,
    backend_name: &'static str,
    door: Door,
    limits: Limits,
    drain: Drain,
    metrics: Metrics,
}

impl Server {
    fn new(options: Options) -> Self {
        let Options { engine, backend_name, token, limits, signing_key: _ } = options;
        let door = Door::new(token);
        let (drain, metrics) = (Drain::default(), Metrics::default());
        Self(Arc::new(Shared { engine, backend_name, door, limits, drain, metrics }))
    }

    fn door(&self) -> &Door {
        &self.0.door
    }

    fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn limits(&self) -> &Limits {
        &self.0.limits
    }

    fn drain(&self) -> &Drain {
        &self.0.drain
    }

    fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Sends a command; a refusal says which operation was refused.
    async fn execute<C: Operation>(&self, command: C) -> Result<C::Reply, Refused> {
        let done = self.engine().execute(command).await;
        done.map_err(|error| Refused::from(error).during(<C as Decide>::NAME))
    }
}
