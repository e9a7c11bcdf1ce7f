//! Workers of the SDK: how fast their steps are kept, and what they cost.

use std::time::Instant;

use anyhow::Context as _;
use ff_sdk::{Client, Context, Error, Worker};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, BufReader};

use super::per_second;
use crate::place::{Place, engine};

/// Steps of one workflow.
const STEPS: u32 = 10;

async fn ten_steps(ctx: Context, (): ()) -> Result<u32, ff_sdk::BoxError> {
    let mut sum = 0;
    for _ in 0..STEPS {
        sum += ctx.step("count", async || Ok::<_, Error>(1)).await?;
    }
    Ok(sum)
}

/// Workflows of ten steps that do nothing, sixteen at the same time; steps per second.
pub async fn steps_c16(place: &Place) -> anyhow::Result<f64> {
    const WORKFLOWS: u32 = 1_600;
    let client = Client::new(Arc::new(engine(&place.fresh()).await?));
    let drafts = (0..WORKFLOWS).map(|_| client.create("ten", ()).lane("bench"));
    let all = client.create_many(drafts).await?;
    let begun = Instant::now();
    let worker = client.worker("bench").concurrency(16).handle("ten", ten_steps).start()?;
    for one in all {
        let sum: u32 = one?.result().await?;
        anyhow::ensure!(sum == STEPS, "{sum} steps were taken");
    }
    let rate = per_second(WORKFLOWS * STEPS, begun);
    worker.stop().await?;
    Ok(rate)
}

/// Executions that the other process works off.
const WORKED_OFF: u32 = 20_000;

fn noop(client: &Client) -> Worker {
    let noop = async |_: Context, (): ()| Ok::<_, Error>(());
    client.worker("bench").concurrency(500).handle("noop", noop)
}

/// Processor time that a worker process takes for one execution that does nothing, in µs.
pub async fn worker_cpu_us(place: &Place) -> anyhow::Result<f64> {
    let url = place.fresh();
    let client = Client::new(Arc::new(engine(&url).await?));
    for _ in 0..WORKED_OFF / 1_000 {
        let drafts = (0..1_000).map(|_| client.create("noop", ()).lane("bench"));
        client.create_many(drafts).await?;
    }
    let mut worker = tokio::process::Command::new(std::env::current_exe()?)
        .args(["--noop-worker", &url])
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let said = worker.stdout.take().context("the worker's output is read")?;
    let line =
        BufReader::new(said).lines().next_line().await?.context("the worker says nothing")?;
    worker.kill().await?;
    Ok(line.trim().parse()?)
}

/// The other process: works everything off and says what that took.
pub async fn noop_worker(url: &str) -> anyhow::Result<()> {
    let engine = engine(url).await?;
    let client = Client::new(Arc::new(engine.clone()));
    let before = cpu_us()?;
    let worker = noop(&client).start()?;
    // What is claimed is completed before the worker stops.
    while engine.lane_depths().await?.iter().any(|lane| lane.waiting > 0) {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    worker.stop().await?;
    println!("{}", (cpu_us()? - before) / f64::from(WORKED_OFF));
    Ok(())
}

/// Processor time that the threads of this process have taken so far.
fn cpu_us() -> anyhow::Result<f64> {
    let mut ns = 0_u64;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let ran = stat.split_whitespace().next().context("an empty schedstat")?;
        ns += ran.parse::<u64>()?;
    }
    Ok(std::time::Duration::from_nanos(ns).as_secs_f64() * 1e6)
}

/// 64 callers, each creating one execution at a time and waiting for its end, beside a worker.
async fn cycles(client: &Client) -> anyhow::Result<f64> {
    const CALLERS: u32 = 64;
    const EACH: u32 = 60;
    let noop = async |_: Context, (): ()| Ok::<_, Error>(());
    let worker = client.worker("bench").concurrency(64).handle("noop", noop).start()?;
    client.create("noop", ()).lane("bench").await?.ended().await?;
    let begun = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..EACH {
                    client.create("noop", ()).lane("bench").await?.ended().await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    let rate = per_second(CALLERS * EACH, begun);
    worker.stop().await?;
    Ok(rate)
}

/// Through a server, beside the same without one.
pub async fn http_cycle(place: &Place) -> anyhow::Result<(f64, f64)> {
    let engine = engine(&place.fresh()).await?;
    let embedded = cycles(&Client::new(Arc::new(engine.clone()))).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let options = ff_server::Options::new(engine, "postgres");
    let serving = tokio::spawn(ff_server::serve(listener, options, std::future::pending()));
    let served = cycles(&Client::new(Arc::new(ff_sdk::Remote::new(&url, None)?))).await;
    serving.abort();
    Ok((served?, embedded))
}
