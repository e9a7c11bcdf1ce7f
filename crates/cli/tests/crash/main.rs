//! Processes killed with `kill -9` at random moments lose nothing.
//!
//! Three worker processes work on one database, and twenty times one is killed and another
//! started, while the test creates executions as fast as they are worked off. On PostgreSQL the
//! whole server is killed three times as well. A creation whose answer is lost is sent again until
//! it is answered; each worker logs every completion that was acknowledged to it. In the end every
//! acknowledged creation has ended once, within its policy, and every acknowledged completion
//! stands as it was acknowledged. Flows and waits have storms of their own.
#![allow(clippy::unwrap_used, missing_docs)]

mod check;
mod creator;
mod fleet;
mod flows;
mod waits;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ff_backend_postgres::Postgres;
use ff_backend_sqlite::{Options, Sqlite};
use ff_cluster::Cluster;
use ff_core::Backend;
use ff_engine::Engine;
use tokio::sync::watch;

use creator::{Creator, Progress};
use fleet::Fleet;

const WORKERS: usize = 3;
const KILLS: usize = 20;
/// After which of those the server is killed as well, if there is one. Once it stays away until a
/// creation has failed, which no quick repetition hides; the other times it is back at once.
const SERVER_KILLS: [(usize, Away); 3] =
    [(1, Away::Briefly), (8, Away::UntilNoticed), (15, Away::Briefly)];
/// Nothing here takes longer, on a busy machine either.
const PATIENCE: Duration = Duration::from_mins(5);

/// How long a killed server is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    /// It is started again at once.
    Briefly,
    /// It is started again when a creation has failed.
    UntilNoticed,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_lose_nothing_in_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("crash.db");
    let store = Sqlite::open(Options::new(&file)).unwrap();
    let fleet = Fleet::new(directory.path(), format!("sqlite:{}", file.display()));
    storm(Arc::new(store), fleet, None, 2_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_and_servers_lose_nothing_in_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    // Stock settings: what is acknowledged is synced.
    let cluster = Cluster::start(&[]).unwrap();
    let options = ff_backend_postgres::Options::new(cluster.url());
    let store = Postgres::open(options).await.unwrap();
    let fleet = Fleet::new(directory.path(), cluster.url());
    storm(Arc::new(store), fleet, Some(cluster), 5_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_and_servers_lose_no_flow_in_a_crash() {
    const FLOWS: usize = 120;
    const KILLS: usize = 10;
    let directory = tempfile::tempdir().unwrap();
    let mut server = Some(Cluster::start(&[]).unwrap());
    let url = server.as_ref().unwrap().url();
    let store = Postgres::open(ff_backend_postgres::Options::new(&url)).await.unwrap();
    let mut fleet = Fleet::new(directory.path(), url);
    let begun = Instant::now();
    let engine = Engine::new(Arc::new(store));
    (0..WORKERS).for_each(|_| fleet.start());
    let (sender, mut progress) = watch::channel(Progress::default());
    let submitting = tokio::spawn(flows::submit(engine.clone(), FLOWS, sender));
    for kill in 1..=KILLS {
        let mark = kill * FLOWS / (KILLS + 1);
        let reached = progress.wait_for(|so_far| so_far.acknowledged >= mark);
        tokio::time::timeout(PATIENCE, reached).await.expect("flows go on").unwrap();
        fleet.kill_one();
        if [3, 7].contains(&kill)
            && let Some(running) = server.take()
        {
            server = Some(lose(running, &mut progress, Away::Briefly).await);
        }
    }
    let submitted = submitting.await.unwrap();
    flows::check(&engine, &submitted).await;
    fleet.check_alive();
    println!("{FLOWS} flows, {KILLS} kills: {:.1} s", begun.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_and_servers_lose_no_signal_in_a_crash() {
    const TALKS: usize = 300;
    const KILLS: usize = 12;
    let directory = tempfile::tempdir().unwrap();
    let mut server = Some(Cluster::start(&[]).unwrap());
    let url = server.as_ref().unwrap().url();
    let store = Postgres::open(ff_backend_postgres::Options::new(&url)).await.unwrap();
    let mut fleet = Fleet::new(directory.path(), url);
    let begun = Instant::now();
    let engine = Engine::new(Arc::new(store));
    (0..WORKERS).for_each(|_| fleet.start());
    let (sender, mut progress) = watch::channel(Progress::default());
    let mut talking = tokio::spawn(waits::talk(engine.clone(), TALKS, sender));
    for kill in 1..=KILLS {
        let mark = kill * TALKS * waits::TURNS / (KILLS + 1);
        let reached = progress.wait_for(|so_far| so_far.acknowledged >= mark);
        tokio::select! {
            reached = reached => drop(reached.unwrap()),
            done = &mut talking => panic!("{:?}", done.map(|_| "too early")),
        }
        fleet.kill_one();
        if [4, 8].contains(&kill)
            && let Some(running) = server.take()
        {
            server = Some(lose(running, &mut progress, Away::Briefly).await);
        }
    }
    let told = talking.await.unwrap();
    wait_until_all_ended(&engine, TALKS).await;
    fleet.check_alive();
    let reclaims = waits::check(&engine, &told).await;
    assert!(reclaims > 0, "the kills hit running work");
    let took = begun.elapsed().as_secs_f64();
    println!("{TALKS} talks, {KILLS} kills, {reclaims} reclaims: {took:.1} s");
}

/// Creates, kills, waits until all has ended, and checks what is left.
async fn storm(
    store: Arc<dyn Backend>,
    mut fleet: Fleet,
    mut server: Option<Cluster>,
    executions: usize,
) {
    let begun = Instant::now();
    let engine = Engine::new(store);
    (0..WORKERS).for_each(|_| fleet.start());
    let (creator, mut progress) = Creator::new(engine.clone(), executions);
    let creating = tokio::spawn(creator.run());
    for kill in 1..=KILLS {
        let mark = kill * executions / (KILLS + 1);
        let reached = progress.wait_for(|so_far| so_far.acknowledged >= mark);
        tokio::time::timeout(PATIENCE, reached).await.expect("creations go on").unwrap();
        fleet.kill_one();
        if let Some((_, away)) = SERVER_KILLS.into_iter().find(|(after, _)| *after == kill)
            && let Some(running) = server.take()
        {
            server = Some(lose(running, &mut progress, away).await);
        }
    }
    let created = creating.await.unwrap();
    wait_until_all_ended(&engine, executions).await;
    fleet.check_alive();
    let checked = check::everything(&engine, &created, &fleet.acknowledged()).await;
    assert_eq!(fleet.started(), WORKERS + KILLS);
    println!("{created}; {checked}; {:.1} s", begun.elapsed().as_secs_f64());
}

/// Kills the server and starts it again.
async fn lose(
    mut server: Cluster,
    progress: &mut watch::Receiver<Progress>,
    away: Away,
) -> Cluster {
    let before = progress.borrow().errors;
    let kill = move || {
        server.kill().unwrap();
        server
    };
    let mut server = tokio::task::spawn_blocking(kill).await.unwrap();
    if away == Away::UntilNoticed {
        let erred = progress.wait_for(|so_far| so_far.errors > before);
        tokio::time::timeout(PATIENCE, erred).await.expect("a creation fails").unwrap();
    }
    let restart = move || {
        server.restart().unwrap();
        server
    };
    tokio::task::spawn_blocking(restart).await.unwrap()
}

async fn wait_until_all_ended(engine: &Engine, executions: usize) {
    let begun = Instant::now();
    let all = u64::try_from(executions).unwrap();
    loop {
        let counts = engine.count_executions().await.unwrap();
        let ended = counts.iter().filter(|count| count.state.is_terminal());
        if ended.map(|count| count.count).sum::<u64>() == all {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "not all ended: {counts:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
