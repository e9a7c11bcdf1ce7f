//! The prompt mode: no faults, and nothing may wait beside a claim that waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::caller::Caller;
use crate::checker::{Violation, late, lives};
use crate::clients::{self, Creation, create_one};
use crate::database::Database;
use crate::record::{Call, Record, Recorder, What};
use crate::time::sleep_ms;
use crate::world::{Phase, World};
use crate::{Options, fleet, health, settled, summary};

/// How long anything ready may wait beside a waiting claim.
const LATE_MS: i64 = 150;
/// How long everything may take to end once all of it is created.
const SETTLE: Duration = Duration::from_mins(1);
/// Who creates.
const CREATORS: u64 = 6;
/// How much a creator rests between two creations: the workers must be idle most of the time, in the
/// lulls all of them.
const REST_MS: (u64, u64) = (10, 60);

/// With two servers and with three; answers how many violations there were.
pub async fn play(options: &Options, seed: u64) -> anyhow::Result<usize> {
    let mut violations = 0;
    for servers in [2, 3] {
        violations += Box::pin(with(options, seed, servers)).await?;
    }
    Ok(violations)
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
        creators.spawn(create(world.clone(), index, share(options.executions, index)));
    }
    creators.join_all().await;
    // The last delays and signals; what lies there for ever is late as well.
    let mut found = settled::wait_until_ended(&world, SETTLE).await;
    phase.send_replace(Phase::Over);
    clients.join_all().await;
    println!("{servers} servers");
    found.extend(judge(&recorder.take(), options.executions));
    summary::print_violations(seed, &found, &Record::default());
    for server in fleet.iter() {
        server.kill().await;
    }
    Ok(found.len())
}

/// How many of them a creator creates: all of them together exactly as many as were asked for.
fn share(executions: u64, index: u64) -> u64 {
    executions / CREATORS + u64::from(index < executions % CREATORS)
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

/// Everything that waited too long; or nothing was created as it should be, or nothing can be said of it.
fn judge(record: &Record, executions: u64) -> Vec<Violation> {
    let lives = lives(record);
    let waits = late::waits(record, &lives);
    let mut all = late::beside(&waits);
    let judged = all.len();
    let slowed = |known: bool| {
        waits.iter().filter(|wait| wait.disturbed && wait.by.is_some() == known).count()
    };
    let (partly, skipped) = (slowed(true), slowed(false));
    let acknowledges = |call: &Call| call.done() && matches!(call.what, What::Create { .. });
    let created = lives.values().filter(|life| life.iter().any(|call| acknowledges(call))).count();
    let slow: i64 = record.starved.iter().map(|span| span.to - span.from).sum();
    println!("{created} created, ready to claimed: {}", summary::spread(&mut all));
    println!(
        "{judged} waits beside a waiting claim were judged, {partly} of them in part; {skipped} were \
         skipped, because the machine was too slow ({} times, {slow} ms)",
        record.starved.len()
    );
    let mut found = late::later_than(LATE_MS, &waits, &lives);
    if judged == 0 {
        let text = format!("{} waits, {skipped} skipped", waits.len());
        found.push(Violation::new("nothing could be judged", 0, text));
    }
    if u64::try_from(created) != Ok(executions) {
        let text = format!("{created} of {executions}");
        found.push(Violation::new("another number of executions was created", 0, text));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::tests::{claimed, created, good};
    use crate::record::Span;

    fn rules(record: &Record, executions: u64) -> Vec<&'static str> {
        judge(record, executions).iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn exactly_as_many_are_created_as_were_asked_for() {
        for asked in [0, 1, 5, 6, 10_000, 10_001] {
            let all: u64 = (0..CREATORS).map(|index| share(asked, index)).sum();
            assert_eq!(all, asked);
        }
    }

    #[test]
    fn work_that_waits_longer_than_the_limit_is_found() {
        let mut record = good();
        assert_eq!(rules(&record, 1), [""; 0]);
        record.calls = vec![created(10), claimed((0, 200), 1, 5_000)];
        assert_eq!(rules(&record, 1), ["ready work lay beside a waiting claim"]);
        assert_eq!(rules(&record, 2).len(), 2);
    }

    #[test]
    fn a_machine_that_is_too_slow_to_judge_anything_is_a_failure() {
        let mut record = good();
        record.starved.push(Span { what: "a server was slow".into(), from: 0, to: 90 });
        assert_eq!(rules(&record, 1), ["nothing could be judged"]);
    }
}
