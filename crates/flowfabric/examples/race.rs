//! A race of models: all are asked the same question, the first answer counts, and the others are
//! cancelled and stop thinking. Run it with `cargo run -p flowfabric --example race`.
//!
//! The models are made up and run here; what matters is that nobody pays for thoughts that nobody
//! waits for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowfabric::prelude::*;
use flowfabric::{Client, Worker};

/// The models, and for how many milliseconds each thinks.
const MODELS: [(&str, u64); 3] = [("huge", 3_600_000), ("small", 50), ("large", 1_800_000)];

/// Who stopped thinking.
#[derive(Clone, Default)]
pub struct Stopped(Arc<Mutex<Vec<String>>>);

impl Stopped {
    fn note(&self, model: String) {
        self.0.lock().expect("nobody panics here").push(model);
    }

    /// All of them, in no order.
    pub fn models(&self) -> Vec<String> {
        let mut models = self.0.lock().expect("nobody panics here").clone();
        models.sort();
        models
    }
}

/// The first answer that any model has.
pub async fn ask(ctx: Context, question: String) -> Result<String> {
    let thoughts = MODELS.map(|(model, ms)| ctx.task("think", (model, ms, &question)));
    Ok(ctx.race(thoughts).await?)
}

/// One model thinks, for as long as somebody wants to know.
async fn think(ctx: Context, (model, ms, question): (String, u64, String)) -> Result<String> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(ms)) => {
            Ok(format!("{model} says: {question} Forty-two."))
        }
        () = ctx.cancelled().cancelled() => {
            ctx.state::<Stopped>().note(model);
            Err(Error::permanent("nobody wants to know any more").into())
        }
    }
}

/// A worker that asks and thinks. A handler learns that it was cancelled when its lease is renewed,
/// after a third of the lease.
pub fn worker(fabric: &Client, stopped: &Stopped) -> Worker {
    let worker = fabric.worker("default").state(stopped.clone()).lease(Duration::from_secs(3));
    worker.handle("ask", ask).handle("think", think)
}

#[tokio::main]
#[allow(dead_code, reason = "tests use the race without it")]
async fn main() -> Result<()> {
    let url = std::env::var("FF_URL").unwrap_or_else(|_| "sqlite:race.db".to_owned());
    let fabric = FlowFabric::open(&url).await?;
    let stopped = Stopped::default();
    let worker = worker(&fabric, &stopped).start()?;
    let asked = fabric.create("ask", "What is six times seven?").await?;
    println!("{}", asked.result::<String>().await?);
    worker.stop().await?; // when those that still think have stopped
    println!("stopped thinking: {}", stopped.models().join(", "));
    Ok(())
}
