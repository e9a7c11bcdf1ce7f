//! The clients of a storm.

mod creators;
mod operators;
mod readers;
mod signallers;
mod stream;
pub mod workers;

use ff_core::ExecutionId;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::database::Database;
use crate::record::Fence;
use crate::world::World;

pub use creators::{Creation, create_one};
pub use readers::seen;

/// Workers for each server.
const WORKERS: usize = 5;
/// Who creates executions.
const CREATORS: usize = 3;
/// Who sends signals.
const SIGNALLERS: usize = 2;

/// Starts all of them; they end when the storm is over.
pub async fn start(world: &World, database: &Database) -> anyhow::Result<JoinSet<()>> {
    let mut clients = JoinSet::new();
    readers::start(world, database, &mut clients).await?;
    for index in 0..WORKERS * world.caller.servers() {
        clients.spawn(workers::work(world.clone(), index));
    }
    for index in 0..CREATORS {
        clients.spawn(creators::create(world.clone(), index));
    }
    for index in 0..SIGNALLERS {
        clients.spawn(signallers::signal(world.clone(), index));
    }
    clients.spawn(creators::submit(world.clone()));
    clients.spawn(operators::operate(world.clone()));
    Ok(clients)
}

/// Clients of the prompt mode: idle workers on every server, and who sends signals.
pub fn prompt(world: &World) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for index in 0..WORKERS * world.caller.servers() {
        clients.spawn(workers::work_promptly(world.clone(), index));
    }
    for index in 0..SIGNALLERS {
        clients.spawn(signallers::signal(world.clone(), index));
    }
    clients
}

/// An id in an answer.
fn id_of(value: &Value) -> Option<ExecutionId> {
    value.as_str()?.parse().ok()
}

/// A fence in an answer.
fn fence_of(value: &Value) -> Fence {
    let field = |name: &str| value[name].as_u64().unwrap_or_default();
    Fence { attempt: field("attempt_index"), epoch: field("lease_epoch") }
}

/// A fence in a request.
fn fence_json(fence: Fence) -> Value {
    serde_json::json!({"attempt_index": fence.attempt, "lease_epoch": fence.epoch})
}
