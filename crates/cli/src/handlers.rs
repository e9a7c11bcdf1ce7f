//! The handlers of the samples, by kind. What they do is invented; how it is kept is not.

use std::collections::BTreeMap;
use std::time::Duration;

use flowfabric::{BoxError, Client, Context, Error, Result, Worker};
use serde::{Deserialize, Serialize};

use crate::{deploy, parcel};

/// A worker for all of them.
pub fn worker(client: &Client, lane: &str) -> Worker {
    client
        .worker(lane)
        .name("sample")
        .handle("greet", greet)
        .handle("order", order)
        .handle("flaky", flaky)
        .handle("broken", broken)
        .handle("wrong", wrong)
        .handle("endless", endless)
        .handle("nap", nap)
        .handle("heavy", heavy)
        .handle("talk", talk)
        .handle("deploy", deploy::deploy)
        .handle("weigh", parcel::weigh)
        .handle("quote", parcel::quote)
        .handle("choose", parcel::choose)
        .handle("book", parcel::book)
}

/// What a customer wants.
#[derive(Serialize, Deserialize)]
pub struct Order {
    /// Who.
    pub customer: String,
    /// What, and how many.
    pub items: BTreeMap<String, u32>,
}

/// What a customer gets.
#[derive(Serialize, Deserialize)]
struct Receipt {
    paid_cents: u64,
    tracking: String,
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// A step that takes a while.
async fn slowly<T>(ms: u64, done: T) -> Result<T> {
    pause(ms).await;
    Ok(done)
}

async fn greet(_: Context, name: String) -> Result<String> {
    pause(rand::random_range(5..60)).await;
    Ok(format!("hello, {name}"))
}

/// A pipeline of durable steps; between two of them it gives its slot back.
async fn order(ctx: Context, order: Order) -> Result<Receipt> {
    if order.items.is_empty() {
        return Err(failure(Error::permanent("the order has no items"), "order"));
    }
    let price = order.items.values().map(|count| u64::from(*count) * 250).sum::<u64>();
    ctx.step("validate", || slowly(60, "valid".to_owned())).await?;
    ctx.step("reserve stock", || slowly(250, order.items.len())).await?;
    let paid_cents = ctx.step("charge card", || slowly(400, price)).await?;
    ctx.sleep(Duration::from_millis(1_500)).await; // until the courier comes
    let number = ctx.random("tracking");
    let tracking =
        ctx.step("print label", || slowly(150, format!("FF{:08}", number % 100_000_000))).await?;
    ctx.step("hand over", || slowly(300, format!("for {}", order.customer))).await?;
    Ok(Receipt { paid_cents, tracking })
}

/// Fails twice. What it did before is remembered.
async fn flaky(ctx: Context, _: Option<String>) -> Result<String> {
    let quote = ctx.step("fetch quote", || slowly(20, 42)).await?;
    if ctx.attempt_index() < 2 {
        return Err(failure(Error::transient("connection reset by peer"), "network"));
    }
    ctx.step("book", || slowly(20, quote)).await?;
    Ok(format!("done at attempt {}", ctx.attempt_index()))
}

/// Never succeeds.
async fn broken(_: Context, _: Option<String>) -> Result<()> {
    Err(failure(Error::transient("no route to host"), "network"))
}

/// Cannot succeed until somebody has it run again.
async fn wrong(ctx: Context, _: Option<String>) -> Result<String> {
    if ctx.attempt_index() == 0 {
        return Err(failure(Error::permanent("the order has no address"), "input"));
    }
    Ok(format!("done at attempt {}", ctx.attempt_index()))
}

/// Says how far it is and never ends.
async fn endless(ctx: Context, _: Option<String>) -> Result<()> {
    for percent in (5_u8..).step_by(10).take_while(|percent| *percent < 100) {
        ctx.progress(percent, "still counting").await?;
        pause(50).await;
    }
    std::future::pending().await
}

/// Gives its slot back for a while.
async fn nap(ctx: Context, _: Option<String>) -> Result<String> {
    ctx.sleep(Duration::from_millis(700)).await;
    Ok(format!("done at attempt {}", ctx.attempt_index()))
}

/// Takes longer than its first worker lives.
async fn heavy(ctx: Context, _: Option<String>) -> Result<String> {
    if ctx.attempt_index() == 0 {
        return std::future::pending().await;
    }
    Ok(format!("done at attempt {}", ctx.attempt_index()))
}

/// Hears so many numbers, one after the other, and tells them. Every other one may come before it is
/// waited for.
async fn talk(ctx: Context, turns: u32) -> Result<Vec<u64>> {
    let mut heard = Vec::new();
    for turn in 0..turns {
        let name = format!("turn-{turn}");
        let number = if turn % 2 == 0 {
            ctx.wait_for(name).await
        } else {
            let early = ctx.waitpoint(name).await?;
            pause(rand::random_range(1..20)).await;
            ctx.wait_for(&early).await
        };
        heard.push(number?);
    }
    Ok(heard)
}

fn failure(error: Error, category: &str) -> BoxError {
    error.with_category(category).unwrap_or_else(|refused| refused).into()
}
