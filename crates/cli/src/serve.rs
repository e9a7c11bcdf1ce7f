//! `ff serve`: a database behind HTTP, with its duties, until told to stop.
//!
//! What must stay true: whatever is under way when it is told to stop is finished or given back
//! before it ends, and nobody from outside this machine is served without a token.

use std::io::Write;
use std::net::SocketAddr;

use clap::Args;
use ff_core::WorkFilter;
use ff_engine::Engine;
use ff_sdk::told_to_stop;
use ff_server::{Options, SigningKey, Token};
use flowfabric::{Database, TOKEN};
use tokio::net::TcpListener;

use crate::failure::{Exit, Failure};
use crate::place::{Place, token};

/// Serve a database.
#[derive(Args)]
pub struct Serve {
    /// Where to listen; port 0 takes a free one. Other than loopback addresses need a token
    /// in `FF_TOKEN`
    #[arg(long, default_value = "127.0.0.1:7100", value_name = "ADDRESS")]
    listen: SocketAddr,
}

impl Serve {
    /// Serves until told to stop.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let database = place.database("serve")?;
        let token = door()?;
        let signing_key = signing_key()?;
        ff_server::check_address(self.listen, token.as_ref()).map_err(|_| exposed(self.listen))?;
        let listener = TcpListener::bind(self.listen).await.map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot listen on {}: {error}", self.listen))
                .next("choose another port, or any free one: --listen 127.0.0.1:0")
        })?;
        let engine = Engine::new(database.open().await?);
        let own = Options::new(engine, backend_name(&database));
        let options = Options { token, signing_key, ..own };
        ff_server::seed(&options).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let said = format!("FlowFabric on {database} serves {url} (page {url}/, API {url}/docs)");
        writeln!(std::io::stdout(), "{said}")?;
        keep(listener, options, told_to_stop()).await
    }
}

/// Serves an engine and does its duties until `stop`, then leaves in good order.
pub async fn keep(
    listener: TcpListener,
    options: Options,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let duties = options.engine.start_duties(&WorkFilter::default());
    let drained = ff_server::serve(listener, options, stop).await;
    duties.stop().await;
    drained?;
    Ok(())
}

/// The token that callers must present, if the environment holds one.
pub fn door() -> anyhow::Result<Option<Token>> {
    let token = token().map(|token| Token::new(&token)).transpose();
    Ok(token.map_err(|error| Failure::new(Exit::Usage, format!("{TOKEN}: {error}")))?)
}

/// The key that a store without any is to sign with, if the environment holds one.
pub fn signing_key() -> anyhow::Result<Option<SigningKey>> {
    let held = std::env::var(SigningKey::VARIABLE).ok().filter(|held| !held.is_empty());
    let key = held.map(|held| SigningKey::parse(&held)).transpose();
    let refuse = |error| Failure::new(Exit::Usage, format!("{}: {error}", SigningKey::VARIABLE));
    Ok(key.map_err(refuse)?)
}

/// What the store is called.
pub fn backend_name(database: &Database) -> &'static str {
    if database.url().starts_with("sqlite:") { "sqlite" } else { "postgres" }
}

fn exposed(address: SocketAddr) -> Failure {
    let said = format!("others could reach {address}, and there is no token to keep them out");
    let next = format!("set {TOKEN}, say to $(openssl rand -hex 32); or listen on 127.0.0.1");
    Failure::new(Exit::Usage, said).next(next)
}
