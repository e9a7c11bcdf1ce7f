//! Waits: suspended, told by a signal, claimed again, completed.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use ff_core::condition::ResumeCondition;
use ff_core::decide::deliver::{Authority, DeliverSignal, Delivered};
use ff_core::decide::suspend::{Binding, Suspend};
use ff_core::suspension::{Effect, RequestedBy, SuspensionReason, TimeoutBehavior};
use ff_core::{ClaimAsk, Claimed};
use ff_engine::Engine;
use uuid::Uuid;

use super::{ask, complete, draft, fill, per_second};
use crate::place::{Place, engine};

/// Longer than any run takes.
const LEASE_MS: u64 = 3_600_000;
/// Whole cycles of a wait in all.
const TOTAL: u32 = 10_000;

/// 8 at a time: where claims are made after the signal, and where they wait for it.
pub async fn suspend_c8(place: &Place) -> anyhow::Result<(f64, f64)> {
    Ok((cycles(place, 8, false).await?, cycles(place, 8, true).await?))
}

/// 64 at a time.
pub async fn suspend_c64(place: &Place) -> anyhow::Result<(f64, f64)> {
    Ok((cycles(place, 64, false).await?, cycles(place, 64, true).await?))
}

/// Executions are created and claimed beforehand. Each hand then suspends one, sends the signal that it
/// waits for, claims what goes on, and completes it: one at a time, one call after the other. Or the
/// claim `waits` for the signal, as that of a worker does which has nothing else to do.
async fn cycles(place: &Place, hands: u32, waits: bool) -> anyhow::Result<f64> {
    let engine = engine(&place.fresh()).await?;
    fill(&engine, TOTAL, draft).await?;
    let mut held = Vec::new();
    while held.len() < usize::try_from(TOTAL)? {
        // Held until their turn comes.
        let ask = ClaimAsk { lease_ttl_ms: LEASE_MS, ..ask(500) };
        held.extend(engine.claim(ask, Duration::ZERO).await?);
    }
    // The first few prepare statements.
    for work in held.split_off(held.len() - 10) {
        cycle(&engine, &work, waits).await?;
    }
    let (count, held) = (u32::try_from(held.len())?, Arc::new(Mutex::new(held)));
    let begun = Instant::now();
    let hands: Vec<_> = (0..hands)
        .map(|_| {
            let (engine, held) = (engine.clone(), Arc::clone(&held));
            tokio::spawn(async move {
                let next = || held.lock().expect("nobody panics").pop();
                while let Some(work) = next() {
                    cycle(&engine, &work, waits).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for hand in hands {
        hand.await??;
    }
    Ok(per_second(count, begun))
}

async fn cycle(engine: &Engine, work: &Claimed, waits: bool) -> anyhow::Result<()> {
    let (id, fence) = (work.leased.execution.id, work.leased.fence);
    let (waitpoint, key) = (Uuid::now_v7(), "answer".parse().expect("a valid key"));
    let suspend = Suspend {
        id,
        fence,
        suspension: Uuid::now_v7(),
        condition: ResumeCondition::Single { waitpoint: Clone::clone(&key), signal: None },
        waitpoints: vec![Binding::Fresh { id: waitpoint, key }],
        resume_delay_ms: 0,
        reason: SuspensionReason::WaitingForSignal,
        requested_by: RequestedBy::Worker,
        deadline: None,
        timeout_behavior: TimeoutBehavior::Fail,
        continuation: None,
        idempotency_key: None,
        steps: Vec::new(),
    };
    let reply = engine.suspend_execution(suspend).await?;
    let token = reply.waitpoints.first().and_then(|opened| opened.token.as_ref());
    let token = token.context("a waitpoint has a token")?.as_str().to_owned();
    let signal = DeliverSignal {
        id,
        waitpoint,
        signal: Uuid::now_v7(),
        authority: Authority::Token(token),
        name: "done".parse().expect("a valid name"),
        category: "callback".to_owned(),
        source_type: "bench".to_owned(),
        source_identity: "bench".to_owned(),
        subject: None,
        correlation_id: None,
        idempotency_key: None,
        dedup_ttl_ms: None,
        created_at: None,
        encoding: None,
        payload: None,
        resume_delay_ms: None,
    };
    // What goes on may be another's: there is one for each.
    let claim = engine.claim(ask(1), Duration::from_secs(10));
    let (delivered, given) = if waits {
        let (given, delivered) = tokio::join!(claim, engine.deliver_signal(signal));
        (delivered?, given?)
    } else {
        (engine.deliver_signal(signal).await?, claim.await?)
    };
    let resumed =
        matches!(delivered, Delivered::Accepted { effect: Effect::ConditionSatisfied, .. });
    ensure!(resumed, "{id} does not go on: {delivered:?}");
    let again = given.into_iter().next().context("something goes on")?;
    engine.execute(complete(&again)).await?;
    Ok(())
}
