//! How late under load: from when an execution was to be created to seeing it completed, at half of the
//! rate of the row `drain`, measured in the same run.
//!
//! What is due in one tick is created by one call, and ends are read from the feed. With calls for each
//! execution that rate cannot be offered on PostgreSQL: by the rates of `create_callers32` and `drain`,
//! creating them one by one takes three quarters of both processors and working them off a half, and
//! `await_execution` reads each of them when it is called and after every batch that ends others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use ff_core::ExecutionId;
use ff_core::event::{Cursor, EventKind, Filter};
use ff_engine::Engine;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::speed::{self, BATCH, HANDS};
use super::{ask, complete, draft, per_second};
use crate::place::{Place, engine};

/// How often executions are created.
const TICK: Duration = Duration::from_millis(2);
/// How many times.
const TICKS: u32 = 2_000;
/// Calls under way at most. What waits for its turn is late from when it was due.
const CALLS: usize = 64;
/// Events that are read at once.
const PAGE: u32 = 1_000;
/// How long after an end the next one must be seen.
const PATIENCE: Duration = Duration::from_secs(20);

/// What one run took, in ms, and at which rate it was offered.
pub struct Late {
    /// The 99th percentile.
    pub p99: f64,
    /// The median.
    pub p50: f64,
    /// Executions a second that were offered.
    pub rate: f64,
    /// Executions a second that were completed, until the last one was: far less than what was offered says
    /// that the times are those of a backlog.
    pub kept: f64,
}

/// Claims and completes as the row `drain` does, for ever.
pub async fn batch_worker(engine: Engine) -> anyhow::Result<()> {
    let mut hands = JoinSet::new();
    for _ in 0..HANDS {
        let engine = engine.clone();
        hands.spawn(async move {
            loop {
                let claimed = engine.claim(ask(BATCH), Duration::from_secs(5)).await?;
                for done in engine.execute_all(claimed.iter().map(complete).collect()).await? {
                    done?;
                }
            }
        });
    }
    match hands.join_next().await {
        Some(ended) => ended?,
        None => Ok(()),
    }
}

/// With the worker in this process.
pub async fn one_process(place: &Place) -> anyhow::Result<Late> {
    let rate = speed::drain(place).await? / 2.0;
    let engine = engine(&place.fresh()).await?;
    let worker = tokio::spawn(batch_worker(engine.clone()));
    let late = offered(&engine, rate).await;
    worker.abort();
    late
}

/// With the worker in another process.
pub async fn two_processes(place: &Place) -> anyhow::Result<Late> {
    let rate = speed::drain(place).await? / 2.0;
    let url = place.fresh();
    let engine = engine(&url).await?;
    let this = std::env::current_exe()?;
    let mut worker = tokio::process::Command::new(this)
        .args(["--batch-worker", &url])
        .kill_on_drop(true)
        .spawn()?;
    let late = offered(&engine, rate).await;
    worker.kill().await?;
    late
}

/// When each execution that has not ended was due.
type Due = Arc<Mutex<HashMap<ExecutionId, Instant>>>;

/// Offers so many a second for some seconds, whether or not that is kept up with.
async fn offered(engine: &Engine, rate: f64) -> anyhow::Result<Late> {
    // Connections are opened and statements prepared; the worker of the other process is there.
    let ready = Due::default();
    create(engine, &ready, 1, Instant::now()).await?;
    let (_, from) = ends(engine, &ready, 1, Cursor::Start).await?;

    let (due, calls) = (Due::default(), Arc::new(Semaphore::new(CALLS)));
    let plan = plan(rate);
    let total: u32 = plan.iter().sum();
    let mut clock = tokio::time::interval(TICK);
    clock.tick().await;
    let begun = Instant::now();
    let creating = async {
        let mut creating = JoinSet::new();
        for (tick, count) in (1..).zip(plan) {
            clock.tick().await;
            let at = begun + TICK * tick;
            let (engine, due, calls) = (engine.clone(), Arc::clone(&due), Arc::clone(&calls));
            creating.spawn(async move {
                let _turn = calls.acquire().await?;
                create(&engine, &due, count, at).await
            });
        }
        while let Some(done) = creating.join_next().await {
            done??;
        }
        anyhow::Ok(())
    };
    let ((), (mut took, _)) = tokio::try_join!(creating, ends(engine, &due, total, from))?;
    let kept = per_second(total, begun);
    took.sort_by(f64::total_cmp);
    let at = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)];
    Ok(Late { p99: at(99), p50: at(50), rate, kept })
}

/// How many are due in each tick.
fn plan(rate: f64) -> Vec<u32> {
    let mut planned = 0.0;
    let due = |tick: u32| {
        let mut count = 0;
        while planned < rate * TICK.as_secs_f64() * f64::from(tick) {
            planned += 1.0;
            count += 1;
        }
        count
    };
    (1..=TICKS).map(due).collect()
}

/// Creates so many, which were due at some time.
async fn create(engine: &Engine, due: &Due, count: u32, at: Instant) -> anyhow::Result<()> {
    let drafts: Vec<_> = (0..count).map(|_| draft()).collect();
    let ids = drafts.iter().map(|draft| (draft.id, at));
    due.lock().expect("nobody panics").extend(ids);
    if count > 0 {
        for created in engine.create_executions(drafts).await? {
            created?;
        }
    }
    Ok(())
}

/// Reads the feed until so many have ended: how long each took, in ms, and where the feed goes on.
async fn ends(
    engine: &Engine,
    due: &Due,
    total: u32,
    mut from: Cursor,
) -> anyhow::Result<(Vec<f64>, Cursor)> {
    let (mut took, total) = (Vec::new(), usize::try_from(total)?);
    while took.len() < total {
        let page = engine.read_events(&from, &Filter::default(), PAGE, PATIENCE).await?;
        anyhow::ensure!(!page.events.is_empty(), "{} of {total} have ended", took.len());
        let now = Instant::now();
        let mut due = due.lock().expect("nobody panics");
        for fed in &page.events {
            if let (EventKind::Completion { .. }, Some(id)) = (&fed.event.kind, fed.event.execution)
            {
                let at = due.remove(&id).context("what ended was created here, and ends once")?;
                took.push(now.saturating_duration_since(at).as_secs_f64() * 1_000.0);
            }
        }
        from = page.next;
    }
    Ok((took, from))
}
