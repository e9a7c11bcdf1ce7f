//! An agent loop: a model thinks, calls tools, reads what they say, and thinks again. Every thought
//! and every call is a durable step, so that a crash never asks the model twice and never pays for
//! a tool again. Run it with `cargo run -p flowfabric --example agent`.
//!
//! The model is made up and runs here; what matters is how the loop is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use flowfabric::prelude::*;
use flowfabric::{Client, Worker};
use serde::{Deserialize, Serialize};

/// Thoughts that one task may take.
const THOUGHTS_MAX: usize = 20;

/// What the model says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thought {
    /// Ask a tool.
    Call {
        /// Which.
        tool: String,
        /// For what.
        argument: String,
    },
    /// It knows.
    Answer(String),
}

/// A model that plans a trip, and counts how often it is asked.
#[derive(Clone, Default)]
pub struct Model(Arc<AtomicU32>);

impl Model {
    /// Thinks about what was said so far.
    #[allow(clippy::unused_async, reason = "a real one is asked over the network")]
    pub async fn think(&self, said: &[String]) -> Result<Thought> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let call = |tool: &str, argument: &str| Thought::Call {
            tool: tool.to_owned(),
            argument: argument.to_owned(),
        };
        Ok(match said.len() {
            1 => call("weather", "Lisbon"),
            2 => call("trains", "Lisbon"),
            3 => call("hotels", "Lisbon"),
            _ => Thought::Answer(said[1..].join("; ")),
        })
    }

    /// How often it was asked.
    pub fn asked(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

#[allow(clippy::unused_async, reason = "real ones take their time")]
async fn use_tool(tool: &str, argument: &str) -> Result<String> {
    match tool {
        "weather" => Ok(format!("{argument}: 24 degrees")),
        "trains" => Ok(format!("the night train to {argument} leaves at 21:05")),
        "hotels" => Ok(format!("a room in {argument} for 80 a night")),
        other => Err(Error::permanent(format!("there is no tool {other:?}")).into()),
    }
}

/// The loop.
pub async fn plan(ctx: Context, task: String) -> Result<String> {
    let model = ctx.state::<Model>();
    let mut said = vec![task];
    for round in 0..THOUGHTS_MAX {
        let thought = ctx.step(format!("think {round}"), || model.think(&said)).retries(3).await?;
        match thought {
            Thought::Call { tool, argument } => {
                let call = ctx.step(format!("{tool} {round}"), || use_tool(&tool, &argument));
                said.push(call.retries(3).await?);
            }
            Thought::Answer(answer) => return Ok(answer),
        }
    }
    Err(Error::permanent("the model did not come to an end").into())
}

/// A worker that plans.
pub fn worker(fabric: &Client, model: &Model) -> Worker {
    fabric.worker("agents").state(model.clone()).handle("plan", plan)
}

#[tokio::main]
#[allow(dead_code, reason = "tests use the loop without it")]
async fn main() -> Result<()> {
    let url = std::env::var("FF_URL").unwrap_or_else(|_| "sqlite:agent.db".to_owned());
    let fabric = FlowFabric::open(&url).await?;
    let model = Model::default();
    let worker = worker(&fabric, &model).start()?;
    let made = fabric.create("plan", "a weekend in Lisbon").lane("agents").await?;
    println!("{}\nthe model was asked {} times", made.result::<String>().await?, model.asked());
    Ok(worker.stop().await?)
}
