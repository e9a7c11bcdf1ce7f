//! A payment that somebody else makes: the provider is given a link, and calls it when it is done.
//! Run it with `cargo run -p flowfabric --example webhook_callback`.
//!
//! The link is made before the provider is asked, so that an answer that comes at once is not lost;
//! and it is used once, so that a provider which calls twice pays once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowfabric::prelude::*;
use flowfabric::{Client, StepInfo, Worker};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

/// Payments that may be under way.
const PAYMENTS_MAX: usize = 16;

/// What the provider is asked for.
pub struct Charge {
    cents: u64,
    call_back: String,
}

/// What it says when it is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payment {
    /// How much was paid.
    pub cents: u64,
    /// Where to look it up.
    pub reference: String,
}

/// A payment provider that takes a charge now, and calls back later. It is made up, but like a real
/// one it recognises a charge that it has seen.
#[derive(Clone)]
pub struct Provider {
    seen: Arc<Mutex<BTreeSet<String>>>,
    charges: mpsc::Sender<Charge>,
}

impl Provider {
    /// A provider, and the charges that it has to work on.
    pub fn new() -> (Self, mpsc::Receiver<Charge>) {
        let (charges, receiver) = mpsc::channel(PAYMENTS_MAX);
        (Self { seen: Arc::default(), charges }, receiver)
    }

    async fn charge(&self, info: StepInfo, charge: Charge) -> Result<()> {
        let new = self.seen.lock().map_err(|_| "closed")?.insert(info.token.to_string());
        if new {
            self.charges.send(charge).await?;
        }
        Ok(())
    }

    /// How many charges it has taken.
    pub fn charged(&self) -> usize {
        self.seen.lock().map_or(0, |seen| seen.len())
    }
}

/// The provider's side. All it knows of us is the link: a real one sends
/// `POST https://our-server/v1/signals/…` with what it has to say.
pub async fn provide(web: Client, mut charges: mpsc::Receiver<Charge>) -> Result<(), Error> {
    while let Some(Charge { cents, call_back }) = charges.recv().await {
        let payment = Payment { cents, reference: "P-1".to_owned() };
        web.follow(&call_back, &payment).await?;
        web.follow(&call_back, &payment).await?; // as they do, to be sure
    }
    Ok(())
}

/// Has the customer pay, and ships when that is done.
pub async fn checkout(ctx: Context, cents: u64) -> Result<String> {
    let provider = ctx.state::<Provider>();
    let paid = ctx.waitpoint("payment").await?;
    let charge = |info: StepInfo| {
        let (provider, paid) = (&provider, &paid);
        async move {
            let call_back = paid.link("paid").await?;
            provider.charge(info, Charge { cents, call_back }).await
        }
    };
    ctx.step("charge", charge).await?;
    let waited = ctx.wait_for::<Payment>(&paid).signal("paid").timeout(Duration::from_hours(1));
    match waited.await {
        Ok(payment) => Ok(format!("{} cents paid ({}): shipped", payment.cents, payment.reference)),
        Err(late) if late.is_wait_timeout() => Ok("not paid within an hour".to_owned()),
        Err(error) => Err(error.into()),
    }
}

/// A worker that checks out.
pub fn worker(fabric: &Client, provider: &Provider) -> Worker {
    fabric.worker("shop").state(provider.clone()).handle("checkout", checkout)
}

#[tokio::main]
#[allow(dead_code, reason = "tests use the checkout without it")]
async fn main() -> Result<()> {
    let url = std::env::var("FF_URL").unwrap_or_else(|_| "sqlite:webhook.db".to_owned());
    let fabric = FlowFabric::open(&url).await?;
    let (provider, charges) = Provider::new();
    let providing = tokio::spawn(provide(Client::clone(&fabric), charges));
    let worker = worker(&fabric, &provider).start()?;
    let made = fabric.create("checkout", 4_200).lane("shop").await?;
    println!("{}", made.result::<String>().await?);
    worker.stop().await?;
    drop(provider);
    Ok(providing.await??)
}
