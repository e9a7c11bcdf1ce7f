//! An order in ten durable steps. Stop it at any of them: it goes on with the next, and nothing is
//! done twice. Run it with `cargo run -p flowfabric --example orders`.
//!
//! Whatever a step does to the outside may happen more than once, because the process may die
//! before it says so. Every step therefore has a token that stays the same, by which the receiver
//! recognises it: [`Shop`] stands for such receivers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use flowfabric::prelude::*;
use flowfabric::{Client, StepInfo, Worker};
use serde::{Deserialize, Serialize};

/// What a customer wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Who.
    pub customer: String,
    /// What, and how many.
    pub items: BTreeMap<String, u32>,
}

/// What the customer gets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// How much was paid, in cents.
    pub paid: u64,
    /// How to follow the parcel.
    pub tracking: String,
}

/// The outside world: keeps what was done, by token.
#[derive(Clone, Default)]
pub struct Shop(Arc<Mutex<BTreeMap<String, String>>>);

impl Shop {
    /// Does something once for each token.
    pub fn once(&self, info: StepInfo, deed: &str) -> Result<String> {
        let mut done = self.0.lock().map_err(|_| "the shop is closed")?;
        let what = done.entry(info.token.to_string()).or_insert_with(|| deed.to_owned());
        Ok(what.clone())
    }

    /// Everything that was done, in no order.
    pub fn deeds(&self) -> Vec<String> {
        let done = self.0.lock().map(|done| done.values().cloned().collect::<Vec<_>>());
        let mut done = done.unwrap_or_default();
        done.sort();
        done
    }
}

/// The pipeline.
pub async fn fulfil(ctx: Context, order: Order) -> Result<Receipt> {
    let shop = ctx.state::<Shop>();
    let act = |deed: &'static str| {
        let shop = Arc::clone(&shop);
        move |info: StepInfo| {
            let done = shop.once(info, deed);
            async move { done }
        }
    };
    if order.items.is_empty() {
        return Err(Error::permanent("an order without items").with_category("order")?.into());
    }
    ctx.step("validate", act("validated")).await?;
    ctx.step("reserve", act("reserved")).await?;
    let price = ctx.step("price", async || Ok::<_, Error>(price_of(&order))).await?;
    let tax = ctx.step("tax", async || Ok::<_, Error>(price / 5)).await?;
    ctx.step("charge", act("charged")).retries(3).await?;
    ctx.step("invoice", act("invoiced")).await?;
    ctx.step("pack", act("packed")).await?;
    let number = ctx.random("tracking");
    let tracking = ctx.step("label", async || Ok::<_, Error>(format!("FF{number:020}"))).await?;
    ctx.step("ship", act("shipped")).await?;
    ctx.step("notify", act("notified")).await?;
    Ok(Receipt { paid: price + tax, tracking })
}

fn price_of(order: &Order) -> u64 {
    order.items.values().map(|count| u64::from(*count) * 250).sum()
}

/// A worker that fulfils orders.
pub fn worker(fabric: &Client, shop: &Shop) -> Worker {
    fabric.worker("orders").state(shop.clone()).handle("fulfil", fulfil)
}

/// An order.
pub fn order() -> Order {
    let items = [("tea", 2), ("cup", 1)].map(|(item, count)| (item.to_owned(), count));
    Order { customer: "ada".to_owned(), items: items.into() }
}

#[tokio::main]
#[allow(dead_code, reason = "tests use the pipeline without it")]
async fn main() -> Result<()> {
    let url = std::env::var("FF_URL").unwrap_or_else(|_| "sqlite:orders.db".to_owned());
    let fabric = FlowFabric::open(&url).await?;
    let shop = Shop::default();
    let worker = worker(&fabric, &shop).start()?;
    let made = fabric.create("fulfil", order()).lane("orders").tag("shop.customer", "ada").await?;
    let receipt: Receipt = made.result().await?;
    println!("{receipt:?}\n{}", shop.deeds().join(", "));
    Ok(worker.stop().await?)
}
