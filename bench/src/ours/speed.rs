//! How fast.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ff_core::state::PublicState;
use ff_engine::Engine;

use super::{ask, complete, draft, fill, median, per_second};
use crate::place::{Place, engine};

/// 32 callers, each creating one at a time.
pub async fn create_callers32(place: &Place) -> anyhow::Result<f64> {
    const TOTAL: u32 = 30_000;
    let engine = engine(&place.fresh()).await?;
    engine.create_execution(draft()).await?;
    let left = Arc::new(AtomicU32::new(TOTAL));
    let begun = Instant::now();
    let callers: Vec<_> = (0..32)
        .map(|_| {
            let (engine, left) = (engine.clone(), Arc::clone(&left));
            tokio::spawn(async move {
                let take = |n: u32| n.checked_sub(1);
                while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                    engine.create_execution(draft()).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(per_second(TOTAL, begun))
}

/// Batches of a thousand from two callers.
pub async fn create_batch1000(place: &Place) -> anyhow::Result<f64> {
    const TOTAL: u32 = 40_000;
    let engine = engine(&place.fresh()).await?;
    engine.create_execution(draft()).await?;
    let begun = Instant::now();
    fill(&engine, TOTAL, draft).await?;
    Ok(per_second(TOTAL, begun))
}

/// One worker works off queued executions, each claimed under a lease and completed under its
/// fence, with history and result: while some are being completed, others are being claimed.
pub async fn drain(place: &Place) -> anyhow::Result<f64> {
    const TOTAL: u32 = 20_000;
    let engine = engine(&place.fresh()).await?;
    fill(&engine, TOTAL, draft).await?;
    let begun = Instant::now();
    let ended = work_off(&engine, TOTAL).await?;
    Ok(f64::from(TOTAL) / (ended - begun).as_secs_f64())
}

/// Batches that one worker has in its hands.
pub const HANDS: u32 = 4;
/// Executions in each, at most.
pub const BATCH: u32 = 500;

/// Claims and completes until `total` are done; when the last one was.
pub async fn work_off(engine: &Engine, total: u32) -> anyhow::Result<Instant> {
    let (begun, done) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let hands: Vec<_> = (0..HANDS)
        .map(|_| {
            let (engine, done) = (engine.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut last = begun;
                while done.load(Ordering::SeqCst) < total {
                    let claimed = engine.claim(ask(BATCH), Duration::from_millis(20)).await?;
                    let completes: Vec<_> = claimed.iter().map(complete).collect();
                    let outcomes = engine.execute_all(completes).await?;
                    let finished = u32::try_from(outcomes.len())?;
                    outcomes.into_iter().collect::<Result<Vec<()>, _>>()?;
                    done.fetch_add(finished, Ordering::SeqCst);
                    if finished > 0 {
                        last = Instant::now();
                    }
                }
                anyhow::Ok(last)
            })
        })
        .collect();
    let mut ended = begun;
    for hand in hands {
        ended = ended.max(hand.await??);
    }
    Ok(ended)
}

/// Claims one at a time and completes it, for ever.
pub async fn idle_worker(engine: Engine) -> anyhow::Result<()> {
    loop {
        for work in engine.claim(ask(1), Duration::from_secs(5)).await? {
            let (id, fence) = (work.leased.execution.id, work.leased.fence);
            engine.complete_execution(id, fence, None).await?;
        }
    }
}

/// From calling create to seeing it completed, with an idle worker waiting; the median, in ms.
pub async fn latency_p50(place: &Place) -> anyhow::Result<f64> {
    let engine = engine(&place.fresh()).await?;
    let worker = tokio::spawn(idle_worker(engine.clone()));
    let took = round_trips(&engine).await;
    worker.abort();
    took
}

/// The same with the worker in another process.
pub async fn latency_p50_two_processes(place: &Place) -> anyhow::Result<f64> {
    let url = place.fresh();
    let engine = engine(&url).await?;
    let this = std::env::current_exe()?;
    let mut worker = tokio::process::Command::new(this)
        .args(["--idle-worker", &url])
        .kill_on_drop(true)
        .spawn()?;
    let took = round_trips(&engine).await;
    worker.kill().await?;
    took
}

async fn round_trips(engine: &Engine) -> anyhow::Result<f64> {
    let mut took = Vec::new();
    for round in 0..350 {
        let begun = Instant::now();
        let create = draft();
        let id = create.id;
        engine.create_execution(create).await?;
        let state = engine.await_execution(id, Duration::from_secs(5)).await?;
        anyhow::ensure!(state == PublicState::Completed, "{id} is {state}");
        // The first few open connections and prepare statements.
        if round >= 50 {
            took.push(begun.elapsed().as_secs_f64() * 1_000.0);
        }
    }
    Ok(median(took))
}
