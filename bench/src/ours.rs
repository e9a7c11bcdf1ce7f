//! Our operations, through the engine as a user calls it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ff_backend_sqlite::{Options, Sqlite};
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::execution::Worker;
use ff_core::state::PublicState;
use ff_core::{ClaimAsk, ExecutionId};
use ff_engine::Engine;
use uuid::Uuid;

fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

fn engine(path: &Path) -> anyhow::Result<Engine> {
    Ok(Engine::new(Arc::new(Sqlite::open(Options::new(path))?)))
}

fn draft() -> Create {
    let (lane, kind) = ("bench".parse(), "noop".parse());
    let id = ExecutionId::solo(Uuid::now_v7());
    let input = Bytes::from_static(&[7; 256]);
    Create { input, ..Create::new(id, lane.expect("a valid lane"), kind.expect("a valid kind")) }
}

fn ask(max: u32) -> ClaimAsk {
    let valid = "a valid name";
    let worker = Worker { id: "bench".parse().expect(valid), instance: "b1".parse().expect(valid) };
    ClaimAsk { max, ..ClaimAsk::new(Uuid::now_v7(), worker, vec!["bench".parse().expect(valid)]) }
}

fn per_second(count: u32, begun: Instant) -> f64 {
    f64::from(count) / begun.elapsed().as_secs_f64()
}

/// 32 callers, each creating one at a time.
pub fn create_callers32(path: &Path) -> anyhow::Result<f64> {
    const TOTAL: u32 = 10_000;
    run(async {
        let engine = engine(path)?;
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
    })
}

/// Batches of a thousand from two callers.
pub fn create_batch1000(path: &Path) -> anyhow::Result<f64> {
    const BATCHES: u32 = 10;
    run(async {
        let engine = engine(path)?;
        let begun = Instant::now();
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    for _ in 0..BATCHES {
                        let drafts = (0..1_000).map(|_| draft()).collect();
                        for created in engine.create_executions(drafts).await? {
                            created?;
                        }
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for caller in callers {
            caller.await??;
        }
        Ok(per_second(2 * BATCHES * 1_000, begun))
    })
}

/// One worker works off queued executions: claimed in batches, completed in batches, with
/// leases, fences, history and results.
pub fn drain(path: &Path) -> anyhow::Result<f64> {
    const TOTAL: u32 = 10_000;
    run(async {
        let engine = engine(path)?;
        for _ in 0..TOTAL / 1_000 {
            engine.create_executions((0..1_000).map(|_| draft()).collect()).await?;
        }
        let begun = Instant::now();
        let mut done = 0;
        while done < TOTAL {
            let claimed = engine.claim(ask(200), Duration::ZERO).await?;
            let result = Some(Bytes::from_static(b"ok"));
            let completes = claimed.into_iter().map(|work| Complete {
                id: work.leased.execution.id,
                fence: work.leased.fence,
                result: result.clone(),
                encoding: None,
            });
            let outcomes = engine.execute_all(completes.collect()).await?;
            done += u32::try_from(outcomes.len())?;
            outcomes.into_iter().collect::<Result<Vec<()>, _>>()?;
        }
        Ok(per_second(TOTAL, begun))
    })
}

/// From calling create to seeing it completed, with an idle worker waiting; the median, in ms.
pub fn latency_p50(path: &Path) -> anyhow::Result<f64> {
    run(async {
        let engine = engine(path)?;
        let worker = tokio::spawn({
            let engine = engine.clone();
            async move {
                loop {
                    for work in engine.claim(ask(1), Duration::from_secs(5)).await? {
                        let (id, fence) = (work.leased.execution.id, work.leased.fence);
                        engine.complete_execution(id, fence, None).await?;
                    }
                }
                #[expect(unreachable_code, reason = "names the error type of the loop")]
                anyhow::Ok(())
            }
        });
        let mut took = Vec::new();
        for _ in 0..300 {
            let begun = Instant::now();
            let create = draft();
            let id = create.id;
            engine.create_execution(create).await?;
            let state = engine.await_execution(id, Duration::from_secs(5)).await?;
            anyhow::ensure!(state == PublicState::Completed, "{id} is {state}");
            took.push(begun.elapsed().as_secs_f64() * 1_000.0);
        }
        worker.abort();
        took.sort_by(f64::total_cmp);
        Ok(took[took.len() / 2])
    })
}
