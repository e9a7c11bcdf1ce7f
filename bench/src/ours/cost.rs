//! What it costs the server: bytes of write-ahead log, and statements.

use std::time::Duration;

use ff_core::WorkFilter;
use ff_core::event::Filter;
use ff_engine::Engine;

use super::speed::work_off;
use super::{ask, draft, fill};
use crate::place::{Place, engine};

/// Bytes of write-ahead log per execution that was created, claimed and completed, without and
/// with full-page images.
pub async fn wal_cycle_bytes(place: &Place) -> anyhow::Result<(f64, f64)> {
    const TOTAL: u32 = 10_000;
    let engine = engine(&place.fresh()).await?;
    fill(&engine, 2_000, draft).await?;
    work_off(&engine, 2_000).await?;
    let server = place.connect().await?;
    server.batch_execute("create extension if not exists pg_walinspect; checkpoint").await?;
    let at = "select pg_current_wal_insert_lsn()::text";
    let from: String = server.query_one(at, &[]).await?.get(0);
    fill(&engine, TOTAL, draft).await?;
    work_off(&engine, TOTAL).await?;
    let to: String = server.query_one(at, &[]).await?.get(0);
    // What is inserted must also be written before it can be looked at.
    server.batch_execute("create table if not exists flushed (); drop table flushed").await?;
    let sum = format!(
        "select sum(record_size)::float8, sum(fpi_size)::float8 \
         from pg_get_wal_stats('{from}', '{to}', true)"
    );
    let row = server.query_one(&sum, &[]).await?;
    let (records, images): (f64, f64) = (row.get(0), row.get(1));
    Ok((records / f64::from(TOTAL), images / f64::from(TOTAL)))
}

/// Statements that the server has logged so far.
fn statements(place: &Place) -> anyhow::Result<usize> {
    let log = std::fs::read_to_string(place.cluster().log())?;
    Ok(log.matches("LOG:  execute ").count() + log.matches("LOG:  statement: ").count())
}

/// Statements per execution that is claimed and completed, those that begin and end transactions
/// counted.
pub async fn drain_statements(place: &Place) -> anyhow::Result<f64> {
    const TOTAL: u32 = 20_000;
    let engine = engine(&place.fresh()).await?;
    fill(&engine, TOTAL, draft).await?;
    let before = statements(place)?;
    work_off(&engine, TOTAL).await?;
    let ran = u32::try_from(statements(place)? - before)?;
    Ok(f64::from(ran) / f64::from(TOTAL))
}

/// Statements per second of a process with ten lanes that has nothing to do: its duties run, one
/// claim waits, one subscriber waits.
pub async fn idle_statements(place: &Place) -> anyhow::Result<f64> {
    const WARM_UP: Duration = Duration::from_secs(5);
    const WATCHED: Duration = Duration::from_secs(30);
    let engine = engine(&place.fresh()).await?;
    let lanes: Vec<_> = (0..10).map(|n| format!("lane{n}").parse().expect("a lane")).collect();
    for lane in &lanes {
        let create = ff_core::decide::create::Create { lane: Clone::clone(lane), ..draft() };
        engine
            .cancel_execution(engine.create_execution(create).await?.execution_id(), "done")
            .await?;
    }
    let duties = engine.start_duties(&WorkFilter::default());
    let claim = tokio::spawn({
        let engine = engine.clone();
        async move {
            let ask = ff_core::ClaimAsk { lanes, ..ask(1) };
            engine.claim(ask, Duration::from_mins(2)).await
        }
    });
    let subscriber = tokio::spawn(subscribe(engine.clone()));
    tokio::time::sleep(WARM_UP).await;
    let before = statements(place)?;
    tokio::time::sleep(WATCHED).await;
    let ran = u32::try_from(statements(place)? - before)?;
    claim.abort();
    subscriber.abort();
    duties.stop().await;
    Ok(f64::from(ran) / WATCHED.as_secs_f64())
}

async fn subscribe(engine: Engine) -> anyhow::Result<()> {
    let mut at = engine.feed_tail().await?;
    loop {
        let wait = Duration::from_mins(2);
        at = engine.read_events(&at, &Filter::default(), 100, wait).await?.next;
    }
}
