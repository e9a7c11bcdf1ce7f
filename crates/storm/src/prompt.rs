//! The prompt mode: no faults, and nothing may wait beside a claim that waits for it.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::caller::Caller;
use crate::checker::{Violation, late, lives, tell};
use crate::clients::{self, Creation, create_one};
use crate::database::Database;
use crate::record::{Record, Recorder};
use crate::time::sleep_ms;
use crate::world::{Phase, World};
use crate::{Options, fleet, health, summary};

/// How long anything ready may wait beside a waiting claim.
const LATE_MS: i64 = 150;
/// Who creates.
const CREATORS: u64 = 6;
/// How much a creator rests between two creations: the workers must be idle most of the time, in the
/// lulls all of them.
const REST_MS: (u64, u64) = (10, 60);

/// With two servers and with three; answers how many waits were too long.
pub async fn play(options: &Options, seed: u64) -> anyhow::Result<usize> {
    let mut late = 0;
    for servers in [2, 3] {
        late += Box::pin(with(options, seed, servers)).await?;
    }
    Ok(late)
}

async fn with(options: &Options, seed: u64, servers: u8) -> anyhow::Result<usize> {
    let directory = tempfile::tempdir()?;
    let database = Database::start(options.store, directory.path()).await?;
    let fleet = fleet::start(&database, directory.path(), servers).await?;
    let recorder = Arc::new(Recorder::default());
    let caller = Caller::new(Arc::clone(&fleet), Arc::clone(&recorder));
    let (phase, phases) = watch::channel(Phase::Storm);
    let world = World::new(caller, Arc::clone(&recorder), seed, phases);
    let mut clients = clients::prompt(&world);
    clients.spawn(health::beat(world.clone(), health::PROMPT_LATE_MS));
    for server in 0..fleet.len() {
        clients.spawn(health::probe(world.clone(), server, health::PROMPT_LATE_MS));
    }
    let mut creators = JoinSet::new();
    for index in 0..CREATORS {
        creators.spawn(create(world.clone(), index, options.executions / CREATORS));
    }
    creators.join_all().await;
    // The last delays and signals.
    sleep_ms(8_000).await;
    phase.send_replace(Phase::Over);
    clients.join_all().await;
    let found = judge(&recorder.take(), servers);
    summary::print_violations(seed, &found, &Record::default());
    for server in fleet.iter() {
        server.kill().await;
    }
    Ok(found.len())
}

async fn create(world: World, index: u64, count: u64) {
    let mut dice = world.dice(&format!("creator {index}"));
    for _ in 0..count {
        world.lull().await;
        let server = usize::try_from(dice.roll()).unwrap_or(0) % world.caller.servers();
        let creation = Creation::by_chance(&mut dice, 30, None);
        create_one(&world, server, &creation).await;
        sleep_ms(dice.between(REST_MS.0, REST_MS.1)).await;
    }
}

fn judge(record: &Record, servers: u8) -> Vec<Violation> {
    let lives = lives(record);
    let waits = late::waits(record, &lives);
    let mut all = late::beside(&waits);
    let slow: i64 = record.starved.iter().map(|span| span.to - span.from).sum();
    println!("{servers} servers, ready to claimed: {}", summary::spread(&mut all));
    println!("too slow to judge: {} times, {slow} ms", record.starved.len());
    let late = waits.iter().filter(|wait| wait.beside > LATE_MS);
    let violation = |wait: &late::Wait<'_>| {
        let life = lives.get(&wait.id).map(|life| tell(wait.id, life)).unwrap_or_default();
        let by = wait.by.map(|call| tell(wait.id, &[call])).unwrap_or_default();
        let text =
            format!("{} waited {} ms beside{by}\n      its own:{life}", wait.id, wait.beside);
        Violation::new("ready work waited beside a waiting claim", wait.ready, text)
    };
    late.map(violation).collect()
}
