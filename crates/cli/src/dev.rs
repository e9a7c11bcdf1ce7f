//! `ff dev`: a server with a worker and some work, to try things out.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use ff_core::condition::Word;
use ff_engine::Engine;
use ff_sdk::told_to_stop;
use ff_server::Options;
use ff_wire::waitpoint::WaitpointSnapshot;
use flowfabric::{Client, Database, FlowHandle, Handle};
use tokio::net::TcpListener;

use crate::decide::user;
use crate::handlers::{self, Order};
use crate::id::{short, short_flow};
use crate::output::{self, dim};
use crate::place::{DEFAULT, Place};
use crate::serve::{backend_name, door, keep, signing_key};
use crate::{deploy, parcel, waitpoints};

/// Where it listens, if nobody else does.
const LISTEN: &str = "127.0.0.1:7100";
/// The unit of time of the flow: it takes long enough to be watched.
const BEAT: Duration = Duration::from_millis(300);

/// Start a server with a worker and some work.
#[derive(Args)]
pub struct Dev {}

impl Dev {
    /// Runs until told to stop.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let (database, _passing) = place.database_or_new()?;
        let (token, signing_key) = (door()?, signing_key()?);
        let engine = Engine::new(database.open().await?);
        let client = Client::new(Arc::new(engine.clone()));
        let listener = match TcpListener::bind(LISTEN).await {
            Ok(listener) => listener,
            // Somebody else has it: any other will do.
            Err(_) => TcpListener::bind("127.0.0.1:0").await.context("cannot listen")?,
        };
        let url = format!("http://{}", listener.local_addr()?);
        let own = Options::new(engine, backend_name(&database));
        let options = Options { token, signing_key, ..own };
        ff_server::seed(&options).await?;
        let worker = handlers::worker(&client, "default").drain(Duration::from_secs(2)).start()?;
        let made = samples(&client).await?;
        let flow = parcel::draft(&client, "default", BEAT).await?;
        let asked = Asked::find(&client, &made).await?;
        welcome(&url, &database, &made, &flow)?;
        asked.iter().try_for_each(|asked| asked.tell(&url))?;
        writeln!(std::io::stdout(), "{}\n", dim("Ctrl-C stops it."))?;
        let told = tokio::spawn(tell(flow));
        keep(listener, options, told_to_stop()).await?;
        told.abort();
        Ok(worker.stop().await?)
    }
}

/// Tells of the flow when it has ended. Who is told to stop before that says nothing more.
async fn tell(flow: FlowHandle) -> anyhow::Result<()> {
    flow.ended().await?;
    let mut text = Vec::new();
    parcel::tell(&flow, output::width(), &mut text).await?;
    Ok(std::io::stdout().write_all(&text)?)
}

/// Some work of each sort; the last of it waits for somebody's decision.
async fn samples(client: &Client) -> anyhow::Result<Vec<Handle>> {
    let order = |customer: &str, items: &[(&str, u32)]| {
        let items = items.iter().map(|(item, count)| ((*item).to_owned(), *count)).collect();
        let order = Order { customer: customer.to_owned(), items };
        client.create("order", order).tag("shop.customer", customer)
    };
    let pause = Duration::from_secs(1);
    let all = [
        order("ada", &[("tea", 2), ("cup", 1)]),
        order("grace", &[("book", 3)]),
        order("alan", &[]),
        client.create("flaky", ()).retries_every(3, pause),
        client.create("broken", ()).retries_every(2, pause),
        client.create("greet", "world").delay(Duration::from_secs(20)),
        client.create("nobody", ()).lane("idle").priority(100),
        client.create("deploy", deploy::plan()),
    ];
    let made = client.create_many(all).await?;
    Ok(made.into_iter().collect::<Result<_, _>>()?)
}

fn welcome(
    url: &str,
    database: &Database,
    made: &[Handle],
    flow: &FlowHandle,
) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let (program, at) = command_line(url);
    writeln!(out, "FlowFabric {} on {database}\n", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "  page   {url}/")?;
    writeln!(out, "  API    {url}/docs\n")?;
    let count = made.len();
    writeln!(out, "{count} executions were created and a flow; a worker is on them. Try:\n")?;
    let first = made.first().map_or_else(String::new, |handle| short(handle.id()));
    let order = r#"'{"customer":"mary","items":{"tea":1}}'"#;
    for command in [
        "ls".to_owned(),
        format!("show {first}"),
        format!("flow show {}", short_flow(flow.id())),
        format!("create order --input {order} --wait"),
        "create flaky --retries 3".to_owned(),
    ] {
        writeln!(out, "  {program} {command}{at}")?;
    }
    Ok(writeln!(out)?)
}

/// This program, and what it is told to find the server.
fn command_line(url: &str) -> (String, String) {
    let program = std::env::args().next().unwrap_or_else(|| "ff".to_owned());
    let at = if url == DEFAULT { String::new() } else { format!(" --url {url}") };
    (program, at)
}

/// A decision that is waited for, and a link that makes it.
struct Asked {
    waitpoint: WaitpointSnapshot,
    path: String,
}

impl Asked {
    /// What the last of the samples asks; nothing when it does not come to that in time.
    async fn find(client: &Client, made: &[Handle]) -> anyhow::Result<Option<Self>> {
        let Some(last) = made.last() else { return Ok(None) };
        let Some(waitpoint) = deploy::asked(client, last.id()).await? else { return Ok(None) };
        let who = user().unwrap_or_else(|| "somebody".to_owned());
        let path = waitpoints::sign(client, &waitpoint, Word::Approved.as_str(), Some(who)).await?;
        Ok(Some(Self { waitpoint, path }))
    }

    fn tell(&self, url: &str) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        let (program, at) = command_line(url);
        let id = short(self.waitpoint.execution_id);
        writeln!(out, "A deployment waits until somebody decides. Any of these will do:\n")?;
        let who = if user().is_some() { "" } else { " --as somebody" };
        writeln!(out, "  {program} approve {id}{who}{at}")?;
        writeln!(out, "  {url}/#/inbox")?;
        writeln!(out, "  {url}{}\n", self.path)?;
        Ok(())
    }
}
