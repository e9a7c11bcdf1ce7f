//! Processes killed with `kill -9` at random moments lose nothing.
//!
//! Three worker processes work on one database, and twenty times one is killed and another
//! started, while the test creates executions as fast as they are worked off. On PostgreSQL the
//! whole server is killed three times as well. A creation whose answer is lost is sent again until
//! it is answered; each worker logs every completion that was acknowledged to it. In the end every
//! acknowledged creation has ended once, within its policy, and every acknowledged completion
//! stands as it was acknowledged. Flows and waits have storms of their own, and work that kills
//! every worker that takes it is given up.
#![allow(clippy::unwrap_used, missing_docs)]

mod check;
mod creator;
mod fleet;
mod flows;
mod killer;
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
async fn work_that_kills_every_worker_fails_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("crash.db");
    let engine = Engine::new(Arc::new(Sqlite::open(Options::new(&file)).unwrap()));
    let mut fleet = Fleet::new(directory.path(), format!("sqlite:{}", file.display()));
    fleet.start();
    let begun = Instant::now();
    let id = killer::dies_until_it_fails(&engine, &mut fleet).await;
    killer::check(&engine, id).await;
    println!("{} workers: {:.1} s", fleet.started(), begun.elapsed().as_secs_f64());
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
    let plan = Plan { total: FLOWS, kills: 10, server_kills: [3, 7] };
    let submit = |engine, progress| flows::submit(engine, FLOWS, progress);
    let mut after = plan.play(submit).await;
    flows::check(&after.engine, &after.done).await;
    after.fleet.check_alive();
    println!("{FLOWS} flows, {} kills: {:.1} s", plan.kills, after.begun.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_workers_and_servers_lose_no_signal_in_a_crash() {
    const TALKS: usize = 300;
    let plan = Plan { total: TALKS * waits::TURNS, kills: 12, server_kills: [4, 8] };
    let talk = |engine, progress| waits::talk(engine, TALKS, progress);
    let mut after = plan.play(talk).await;
    wait_until_all_ended(&after.engine, TALKS).await;
    after.fleet.check_alive();
    let reclaims = waits::check(&after.engine, &after.done).await;
    assert!(reclaims > 0, "the kills hit running work");
    let took = after.begun.elapsed().as_secs_f64();
    println!("{TALKS} talks, {} kills, {reclaims} reclaims: {took:.1} s", plan.kills);
}

/// How often something is killed while so much is done on PostgreSQL.
#[derive(Clone, Copy)]
struct Plan {
    total: usize,
    kills: usize,
    /// After which of those the server is killed as well.
    server_kills: [usize; 2],
}

/// What is left when it is done.
struct After<T> {
    engine: Engine,
    fleet: Fleet,
    done: T,
    begun: Instant,
    _server: Cluster,
    _directory: tempfile::TempDir,
}

impl Plan {
    /// Does it, and kills meanwhile.
    async fn play<T, F>(self, work: impl FnOnce(Engine, watch::Sender<Progress>) -> F) -> After<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let directory = tempfile::tempdir().unwrap();
        let mut server = Cluster::start(&[]).unwrap();
        let store = Postgres::open(ff_backend_postgres::Options::new(server.url())).await.unwrap();
        let mut fleet = Fleet::new(directory.path(), server.url());
        let begun = Instant::now();
        let engine = Engine::new(Arc::new(store));
        (0..WORKERS).for_each(|_| fleet.start());
        let (sender, mut progress) = watch::channel(Progress::default());
        let mut working = tokio::spawn(work(engine.clone(), sender));
        for kill in 1..=self.kills {
            let mark = kill * self.total / (self.kills + 1);
            let reached = progress.wait_for(|so_far| so_far.acknowledged >= mark);
            tokio::select! {
                reached = tokio::time::timeout(PATIENCE, reached) => {
                    drop(reached.expect("it goes on").unwrap());
                }
                // It fails: says why at once.
                early = &mut working => panic!("{:?}", early.map(|_| "done too early")),
            }
            fleet.kill_one();
            if self.server_kills.contains(&kill) {
                server = lose(server, &mut progress, Away::Briefly).await;
            }
        }
        let done = working.await.unwrap();
        After { engine, fleet, done, begun, _server: server, _directory: directory }
    }
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
