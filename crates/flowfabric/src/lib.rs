//! Durable execution on the database you already have.
//!
//! ```no_run
//! use flowfabric::prelude::*;
//!
//! async fn greet(ctx: Context, name: String) -> Result<String> {
//!     let greeting = ctx.step("look up", || look_up(&name)).await?; // runs once, is remembered
//!     Ok(format!("{greeting}, {name}!"))
//! }
//!
//! async fn look_up(_name: &str) -> Result<String> {
//!     Ok("hello".to_owned())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<()> {
//!     let fabric = FlowFabric::open("sqlite:fabric.db").await?; // or postgres://…, https://…
//!     fabric.create("greet", "Ada").await?;
//!     Ok(fabric.worker("default").handle("greet", greet).run().await?)
//! }
//! ```

mod database;

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use ff_core::WorkFilter;
use ff_engine::{Duties, Engine};

pub use database::{Database, Standing, VARIABLE, masked};
pub use ff_core::condition::{Distinct, ResumeCondition, Word};
pub use ff_core::decide::deliver::Delivered;
pub use ff_core::execution::Failure;
pub use ff_core::flow::{CancellationPolicy, FlowWord, PublicFlowState};
pub use ff_core::policy::{Backoff, Policy, RetryPolicy, RoutingRequirements, TimeoutPolicy};
pub use ff_core::state::PublicState;
pub use ff_core::suspension::{CloseReason, Effect, SuspensionReason, TimeoutBehavior};
pub use ff_core::{Code, ExecutionId, FlowId};
pub use ff_sdk::{
    BoxError, CancelFlowAnswer, Client, Context, Creation, Decision, EdgeParams, Error, FlowCancel,
    FlowDraft, FlowExtension, FlowHandle, FlowSearchParams, Handle, Handler, MemberParams, Node,
    Remote, Result, RevokeAnswer, Running, SearchParams, SignalLine, StepInfo, TagsRequest, Task,
    Voice, Waited, Waitpoint, WaitpointParams, WaitpointSnapshot, Worker, is_wait_timeout, node,
};

/// The environment variable that holds the token for servers.
pub const TOKEN: &str = "FF_TOKEN";

/// What most programs need.
pub mod prelude {
    pub use crate::{Context, Error, FlowFabric, Handle, PublicState, Result};
}

/// The engine: in this process on a database, or behind a server.
///
/// Everything that [`Client`] does, it does. On a database it also does the duties that keep work
/// moving (timeouts, lost leases, retention) for as long as it lives; any number of processes may.
#[derive(Clone)]
pub struct FlowFabric {
    client: Client,
    embedded: Option<Arc<Embedded>>,
}

/// An engine of this process, with its duties.
struct Embedded {
    engine: Engine,
    duties: Mutex<Option<Duties>>,
}

impl FlowFabric {
    /// Opens `sqlite:<path>` or `postgres://…`, where a new database is made ready and an old one
    /// brought up to date; or speaks to a server at `http://…` or `https://…`, with the token that
    /// `FF_TOKEN` in the environment holds, if any.
    pub async fn open(url: &str) -> Result<Self, Error> {
        if url.starts_with("http://") || url.starts_with("https://") {
            let token = std::env::var(TOKEN).ok().filter(|token| !token.is_empty());
            return Self::connect(url, token);
        }
        let engine = Engine::new(Database::parse(url)?.open().await?);
        Ok(Self::on(engine))
    }

    /// Speaks to a server. Nothing is sent until something is asked of it.
    pub fn connect(url: &str, token: Option<String>) -> Result<Self, Error> {
        let client = Client::new(Arc::new(Remote::new(url, token)?));
        Ok(Self { client, embedded: None })
    }

    /// On an engine that was opened otherwise.
    pub fn on(engine: Engine) -> Self {
        let duties = Mutex::new(Some(engine.start_duties(&WorkFilter::default())));
        let client = Client::new(Arc::new(engine.clone()));
        Self { client, embedded: Some(Arc::new(Embedded { engine, duties })) }
    }

    /// The engine itself, if it is in this process.
    pub fn engine(&self) -> Option<&Engine> {
        self.embedded.as_ref().map(|embedded| &embedded.engine)
    }

    /// Ends the duties of this process, letting those under way finish.
    pub async fn close(self) {
        let Some(embedded) = self.embedded else { return };
        let duties = embedded.duties.lock().expect("no holder of this lock panics").take();
        if let Some(duties) = duties {
            duties.stop().await;
        }
    }
}

impl Deref for FlowFabric {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Compiles and runs what the README and the guides show.
#[cfg(doctest)]
mod shown {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guides/quickstart.md")]
    struct Quickstart;
    #[doc = include_str!("../../../docs/guides/workers-and-steps.md")]
    struct WorkersAndSteps;
    #[doc = include_str!("../../../docs/guides/flows.md")]
    struct Flows;
    #[doc = include_str!("../../../docs/guides/people-and-callbacks.md")]
    struct PeopleAndCallbacks;
}
