//! How late under load: from calling create to seeing it completed, at half of the rate that the same
//! caller and worker sustain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ff_core::state::PublicState;
use ff_engine::Engine;
use tokio::task::JoinSet;

use super::{ask, complete, draft, per_second};
use crate::place::{Place, engine};

/// What one run took, in ms, and at which rate it was offered.
pub struct Late {
    /// The 99th percentile.
    pub p99: f64,
    /// The median.
    pub p50: f64,
    /// Executions a second.
    pub rate: f64,
}

/// Claims a hundred at most at a time and completes them together, for ever: two hands.
pub async fn batch_worker(engine: Engine) -> anyhow::Result<()> {
    let mut hands = JoinSet::new();
    for _ in 0..2 {
        let engine = engine.clone();
        hands.spawn(async move {
            loop {
                let claimed = engine.claim(ask(100), Duration::from_secs(5)).await?;
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
    let engine = engine(&place.fresh()).await?;
    let worker = tokio::spawn(batch_worker(engine.clone()));
    let late = offered(&engine).await;
    worker.abort();
    late
}

/// With the worker in another process.
pub async fn two_processes(place: &Place) -> anyhow::Result<Late> {
    let url = place.fresh();
    let engine = engine(&url).await?;
    let this = std::env::current_exe()?;
    let mut worker = tokio::process::Command::new(this)
        .args(["--batch-worker", &url])
        .kill_on_drop(true)
        .spawn()?;
    let late = offered(&engine).await;
    worker.kill().await?;
    late
}

/// Creates one and waits until it is completed.
async fn cycle(engine: &Engine) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let create = draft();
    let id = create.id;
    engine.create_execution(create).await?;
    let state = engine.await_execution(id, Duration::from_secs(20)).await?;
    anyhow::ensure!(state == PublicState::Completed, "{id} is {state}");
    Ok(begun.elapsed().as_secs_f64() * 1_000.0)
}

/// What 64 callers reach who each begin the next when the last is completed.
async fn sustained(engine: &Engine) -> anyhow::Result<f64> {
    const TOTAL: u32 = 6_000;
    let left = Arc::new(AtomicU32::new(TOTAL));
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..64 {
        let (engine, left) = (engine.clone(), Arc::clone(&left));
        callers.spawn(async move {
            let take = |n: u32| n.checked_sub(1);
            while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                cycle(&engine).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(per_second(TOTAL, begun))
}

/// Offers half of that for some seconds, whether or not it is kept up with.
async fn offered(engine: &Engine) -> anyhow::Result<Late> {
    const TICK: Duration = Duration::from_millis(2);
    const TICKS: u32 = 2_000;
    let rate = sustained(engine).await? / 2.0;
    let (mut cycles, mut begun) = (JoinSet::new(), 0.0);
    let mut clock = tokio::time::interval(TICK);
    for tick in 1..=TICKS {
        clock.tick().await;
        while begun < rate * TICK.as_secs_f64() * f64::from(tick) {
            let engine = engine.clone();
            cycles.spawn(async move { cycle(&engine).await });
            begun += 1.0;
        }
    }
    let mut took = Vec::new();
    while let Some(done) = cycles.join_next().await {
        took.push(done??);
    }
    took.sort_by(f64::total_cmp);
    let at = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)];
    Ok(Late { p99: at(99), p50: at(50), rate })
}
