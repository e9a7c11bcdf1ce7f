//! `ff demo`: a show of real work, on an embedded database unless told.
//!
//! It creates executions that succeed, fail, retry, wait, time out, expire and are cancelled, one
//! that waits for a person, one whose worker process is killed, and a flow that does not wait for
//! the last of its members; works them off; and prints what the stored history says happened to
//! each. Nothing in the report comes from anywhere but the database.

mod report;
mod samples;

use std::io::Write;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use ff_core::query::{Page, Search};
use ff_core::state::PublicState;
use ff_core::{ExecutionId, WorkFilter};
use ff_engine::Engine;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::process::{Child, Command};

use crate::place::Place;
use crate::{handlers, output, parcel};
use flowfabric::{Client, Database, VARIABLE, Worker};
use samples::Sample;

/// Run a show of real work.
#[derive(Args)]
pub struct Demo {
    /// How many of the plain executions to create
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(..=900))]
    count: u16,
}

/// How long a lease lasts in the show: short, so that a killed worker is noticed while you watch.
const LEASE_TTL_MS: u64 = 1_500;
/// The unit of time of the flow in the show.
const BEAT: Duration = Duration::from_millis(60);
/// The show ends after this at the latest.
const SHOW_MAX: Duration = Duration::from_mins(1);

impl Demo {
    /// Runs the show.
    pub async fn run(self, place: &Place) -> anyhow::Result<()> {
        let (database, passing) = place.database_or_new()?;
        let engine = Engine::new(database.open().await?);
        let mut out = std::io::stdout();
        writeln!(out, "FlowFabric on {database}\n")?;
        let duties = engine.start_duties(&WorkFilter::default());

        let victim = kill_a_worker(&engine, &database, &mut out).await?;
        let mut shown = samples::create(&engine, self.count.into()).await?;
        shown.push(victim);
        let client = Client::new(Arc::new(engine.clone()));
        let flow = parcel::draft(&client, samples::lane().as_str(), BEAT).await?;
        let worker = local_worker(&client).start()?;
        let steering = tokio::spawn(samples::steer(client.clone(), engine.clone(), shown.clone()));
        watch(&engine, &shown).await?;
        steering.await.context("the operator panicked")??;
        watch(&engine, &shown).await?;
        let ended = tokio::time::timeout(SHOW_MAX, flow.ended()).await;
        ended.context("the flow did not end in time")??;
        worker.stop().await?;
        duties.stop().await;

        report::print(&client, &shown, &mut out).await?;
        parcel::tell(&flow, output::width(), &mut out).await?;
        if passing.is_none() {
            writeln!(out, "Everything above was read back from {database}")?;
        } else {
            writeln!(out, "Everything above was read back from the database.")?;
            writeln!(out, "Keep it with `--url sqlite:fabric.db`.")?;
        }
        Ok(())
    }
}

fn local_worker(client: &Client) -> Worker {
    handlers::worker(client, samples::lane().as_str())
        .instance(format!("here-{}", std::process::id()))
        .lease(Duration::from_millis(LEASE_TTL_MS))
        .concurrency(16)
        .drain(Duration::ZERO)
}

/// Starts a worker process, waits until it has claimed an execution, and kills it.
async fn kill_a_worker(
    engine: &Engine,
    database: &Database,
    out: &mut impl Write,
) -> anyhow::Result<Sample> {
    let sample = samples::heavy();
    let id = sample.id;
    engine.create_execution(sample.create.clone()).await?;
    let mut process = spawn_worker(database)?;
    let pid = process.id().context("the worker process is gone already")?;
    let claimed = wait_for(engine, id, PublicState::Active).await;
    process.kill().await.context("cannot kill the worker process")?;
    claimed?;
    writeln!(out, "A worker process ({pid}) was killed while it held\n{id}.")?;
    writeln!(out, "Its lease runs out in {LEASE_TTL_MS} ms; another worker takes over.\n")?;
    Ok(sample)
}

fn spawn_worker(database: &Database) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("cannot find this program again")?;
    Command::new(program)
        .args(["sample-worker", "--no-duties", "--name", "doomed"])
        .args(["--lane", samples::lane().as_str()])
        .args(["--lease-ttl-ms", &LEASE_TTL_MS.to_string()])
        // Arguments are there for everybody to see, a password among them.
        .env(VARIABLE, database.url())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start a worker process")
}

async fn wait_for(engine: &Engine, id: ExecutionId, state: PublicState) -> anyhow::Result<()> {
    let seen = async {
        while engine.read_execution_state(id).await? != Some(state) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    let waited = tokio::time::timeout(Duration::from_secs(10), seen).await;
    waited.with_context(|| format!("{id} did not become {state}"))?
}

/// Shows live counts until every execution of the show has ended.
async fn watch(engine: &Engine, shown: &[Sample]) -> anyhow::Result<()> {
    let total = u64::try_from(shown.len()).unwrap_or(0);
    let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
    let bar = bars.add(ProgressBar::new(total));
    bar.set_style(ProgressStyle::with_template("{bar:40.cyan} {pos}/{len} ended   {msg}")?);
    let ended = async {
        loop {
            let states = states(engine, shown).await?;
            let count = |state| states.iter().filter(|own| **own == state).count();
            let over = states.iter().filter(|state| state.is_terminal()).count();
            bar.set_position(u64::try_from(over).unwrap_or(0));
            bar.set_message(format!(
                "{} waiting, {} delayed, {} suspended, {} active",
                count(PublicState::Waiting),
                count(PublicState::Delayed),
                count(PublicState::Suspended),
                count(PublicState::Active)
            ));
            if over == states.len() {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let done = tokio::time::timeout(SHOW_MAX, ended).await;
    bar.finish_and_clear();
    done.context("the show did not end in time")?
}

/// Where each execution of the show stands.
async fn states(engine: &Engine, shown: &[Sample]) -> anyhow::Result<Vec<PublicState>> {
    let search = Search { lane: Some(samples::lane()), ..Search::default() };
    let (found, _) = engine.search_executions(search, &Page::first(1_000)).await?;
    let of = |sample: &Sample| found.iter().find(|x| x.execution_id == sample.id);
    Ok(shown.iter().filter_map(of).map(|x| x.public_state).collect())
}
