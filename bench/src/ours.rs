//! Our operations, through the engine as a user calls it.

pub mod backlog;
pub mod cost;
pub mod flows;
pub mod load;
pub mod speed;
pub mod waits;
pub mod worker;

use std::time::Instant;

use bytes::Bytes;
use ff_core::decide::complete::Complete;
use ff_core::decide::create::Create;
use ff_core::execution::Worker;
use ff_core::{ClaimAsk, Claimed, ExecutionId};
use ff_engine::Engine;
use uuid::Uuid;

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

fn complete(work: &Claimed) -> Complete {
    Complete {
        id: work.leased.execution.id,
        fence: work.leased.fence,
        result: Some(Bytes::from_static(b"ok")),
        encoding: None,
    }
}

/// Creates `count` of what `draft` says, in batches of a thousand from two callers.
async fn fill(engine: &Engine, count: u32, draft: fn() -> Create) -> anyhow::Result<()> {
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for _ in 0..count / 2_000 {
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
    Ok(())
}

fn per_second(count: u32, begun: Instant) -> f64 {
    f64::from(count) / begun.elapsed().as_secs_f64()
}

fn median(mut took: Vec<f64>) -> f64 {
    took.sort_by(f64::total_cmp);
    took[took.len() / 2]
}
