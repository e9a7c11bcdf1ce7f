//! One round: an empty database, servers, clients, faults; then everything settles and is checked.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::caller::{Caller, Request};
use crate::checker::{self, Violation};
use crate::database::Database;
use crate::faults::Weather;
use crate::fleet::{self, Fleet};
use crate::record::Recorder;
use crate::settled::{self, Settled};
use crate::time::sleep_ms;
use crate::world::{Phase, World};
use crate::{Options, clients, health, recount, summary};

/// How long everything may take to end when nothing disturbs it any more.
const SETTLE: Duration = Duration::from_secs(90);
/// How long readers may take to read what is left.
const DRAIN: Duration = Duration::from_mins(1);

/// Plays one round; answers how many violations there were.
pub async fn play(options: &Options, seed: u64, seconds: u64) -> anyhow::Result<usize> {
    let directory = tempfile::tempdir()?;
    let database = Database::start(options.store, directory.path()).await?;
    let fleet = fleet::start(&database, directory.path(), options.servers).await?;
    let recorder = Arc::new(Recorder::default());
    let caller = Caller::new(Arc::clone(&fleet), Arc::clone(&recorder));
    let (phase, phases) = watch::channel(Phase::Storm);
    let world = World::new(caller, Arc::clone(&recorder), seed, phases);

    let mut clients = clients::start(&world, &database).await?;
    clients.spawn(health::beat(world.clone(), health::LATE_MS));
    for server in 0..fleet.len() {
        clients.spawn(health::probe(world.clone(), server, health::LATE_MS));
    }
    let weather = Weather { world: &world, fleet: &fleet, database: &database };
    let end = async {
        sleep_ms(seconds * 1_000).await;
        phase.send_replace(Phase::Settle);
    };
    let (raged, ()) = tokio::join!(weather.rage(options), end);
    raged?;

    let mut violations = recount::in_a_lull(&world, &database).await?;
    violations.extend(settled::wait_until_ended(&world, SETTLE).await);
    phase.send_replace(Phase::Over);
    drain(&mut clients).await?;
    world.caller.once(0, &Request::post("/v1/consumers/drop", consumer())).await;
    let record = recorder.take();
    let settled = Settled::read(&world, &record).await?;
    violations.extend(settled::rows(&world, &database).await?);
    let (again, there) = settled::read_again(&world).await?;
    violations.extend(checker::kept(&record, &again, &there));
    violations.extend(recount::at_the_end(&world, &database, &settled).await?);
    violations.extend(checker::check(&record, &settled));
    violations.extend(what_servers_said(&fleet));
    summary::print(&record, &settled);
    summary::print_violations(seed, &violations, &record);
    if !violations.is_empty()
        && let Some(kept) = std::env::var_os("FF_STORM_KEEP")
    {
        summary::keep(kept.as_ref(), seed, &record, directory.path())?;
    }
    for server in fleet.iter() {
        server.kill().await;
    }
    Ok(violations.len())
}

fn consumer() -> serde_json::Value {
    serde_json::json!({"name": "storm"})
}

/// Waits until all clients have ended.
async fn drain(clients: &mut JoinSet<()>) -> anyhow::Result<()> {
    let all = async {
        while let Some(ended) = clients.join_next().await {
            ended.context("a client of the storm")?;
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(DRAIN, all).await {
        Ok(drained) => drained,
        Err(_) => anyhow::bail!("{} clients do not come to an end", clients.len()),
    }
}

/// Panics, and what a server calls an error.
fn what_servers_said(fleet: &Fleet) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, server) in fleet.iter().enumerate() {
        let said = server.said();
        let bad = |line: &&str| line.contains("panicked at") || line.contains("corruption");
        let lines = said.lines().filter(bad).take(5);
        found.extend(lines.map(|line| {
            Violation::new("a server says what it should not", 0, format!("server {index}: {line}"))
        }));
    }
    found
}
