//! What a backlog costs, and dead rows that nothing may remove.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ff_core::Claimed;
use ff_core::decide::create::Create;
use ff_core::decide::fail::Fail;
use ff_core::decide::priority::ChangePriority;
use ff_core::policy::{FailureClass, Policy};
use ff_engine::Engine;

use super::{ask, complete, draft, fill, median, per_second};
use crate::place::{Place, engine};

const MILLION: u32 = 1_000_000;

/// The median time of a claim of ten, in ms.
async fn claim_ms(engine: &Engine) -> anyhow::Result<f64> {
    let mut took = Vec::new();
    for _ in 0..60 {
        let begun = Instant::now();
        let claimed = engine.claim(ask(10), Duration::ZERO).await?;
        took.push(begun.elapsed().as_secs_f64() * 1_000.0);
        anyhow::ensure!(claimed.len() == 10, "a short claim: {}", claimed.len());
    }
    Ok(median(took))
}

/// A claim with a thousand executions queued, and one with a million.
pub async fn claim_1m_vs_1k(place: &Place) -> anyhow::Result<(f64, f64)> {
    let engine = engine(&place.fresh()).await?;
    fill(&engine, 2_000, draft).await?;
    let few = claim_ms(&engine).await?;
    fill(&engine, MILLION, draft).await?;
    Ok((claim_ms(&engine).await?, few))
}

/// A claim with a thousand executions queued, and the same with a million delayed ones of higher
/// priority besides.
pub async fn claim_1m_delayed(place: &Place) -> anyhow::Result<(f64, f64)> {
    let engine = engine(&place.fresh()).await?;
    fill(&engine, 4_000, draft).await?;
    let without = claim_ms(&engine).await?;
    let delayed = || Create { priority: 9_000, delay_ms: Some(86_400_000), ..draft() };
    fill(&engine, MILLION, delayed).await?;
    Ok((claim_ms(&engine).await?, without))
}

/// Of 200,000 executions, how much faster the first quarter is worked off than the last, while
/// another connection keeps vacuum from removing anything. Some fail once, some are made more
/// urgent meanwhile, and the process that claims is replaced half-way.
pub async fn drain_pinned_horizon(place: &Place) -> anyhow::Result<(f64, f64)> {
    const QUARTER: u32 = 50_000;
    let url = place.fresh();
    let first = engine(&url).await?;
    let pin = place.connect().await?;
    let snapshot = "begin isolation level repeatable read; select count(*) from pg_class";
    pin.batch_execute(snapshot).await?;
    // Every quarter may end a few batches late.
    fill(&first, 4 * QUARTER + 10_000, retried).await?;
    let begun = Instant::now();
    quarter(&first, QUARTER).await?;
    let early = per_second(QUARTER, begun);
    quarter(&first, QUARTER).await?;
    drop(first);
    let second = engine(&url).await?;
    quarter(&second, QUARTER).await?;
    let begun = Instant::now();
    quarter(&second, QUARTER).await?;
    let late = per_second(QUARTER, begun);
    pin.batch_execute("rollback").await?;
    Ok((late, early))
}

fn retried() -> Create {
    let policy = serde_json::json!({"retry_policy": {"max_retries": 2, "backoff":
        {"type": "fixed", "delay_ms": 0}}});
    Create { policy: Policy::parse(&policy).expect("a valid policy"), ..draft() }
}

/// Completes `count`, failing every fiftieth once and making one more urgent in each batch.
async fn quarter(engine: &Engine, count: u32) -> anyhow::Result<()> {
    let done = Arc::new(AtomicU32::new(0));
    let hands: Vec<_> = (0..3)
        .map(|_| {
            let (engine, done) = (engine.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                while done.load(Ordering::SeqCst) < count {
                    let claimed = engine.claim(ask(250), Duration::from_millis(50)).await?;
                    done.fetch_add(handle(&engine, &claimed).await?, Ordering::SeqCst);
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for hand in hands {
        hand.await??;
    }
    Ok(())
}

async fn handle(engine: &Engine, claimed: &[Claimed]) -> anyhow::Result<u32> {
    let fails = |work: &Claimed| {
        let number = work.leased.execution.id.uuid().as_u128();
        work.leased.fence.attempt_index == 0 && number.is_multiple_of(50)
    };
    let failed: Vec<_> = claimed.iter().filter(|work| fails(work)).collect();
    for work in &failed {
        let (id, fence) = (work.leased.execution.id, work.leased.fence);
        let category = "net".parse().expect("a valid category");
        let class = FailureClass::Transient;
        let fail = Fail { id, fence, reason: "again".to_owned(), category, class };
        engine.fail_execution(fail).await?;
    }
    if let Some(work) = failed.first() {
        let id = work.leased.execution.id;
        // It may have been claimed again already.
        let _ = engine.execute(ChangePriority { id, priority: 10, version: None }).await;
    }
    let completes: Vec<_> = claimed.iter().filter(|work| !fails(work)).map(complete).collect();
    let outcomes = engine.execute_all(completes).await?;
    let finished = u32::try_from(outcomes.len())?;
    outcomes.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(finished)
}
