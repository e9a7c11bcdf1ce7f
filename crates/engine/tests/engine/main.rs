//! Tests of the engine: batching and its bounds, claims that wait, duties, and the reads.
#![allow(clippy::unwrap_used, missing_docs)]

mod batching;
mod claims;
mod duties;
mod flows;
mod reads;
mod slow;
mod starts;

use std::sync::Arc;

use ff_conformance::{Dial, Dice, Model, Store, World};
use ff_core::Config;
use ff_engine::Engine;

/// An engine before a model, and the world to speak about it.
fn world() -> (Engine, World) {
    let clock = Arc::new(Dial::default());
    let model = Model::new(Config::default(), Arc::clone(&clock) as _, Box::new(Dice::new(1)));
    let model = Arc::new(model);
    let looked_at = Arc::clone(&model);
    let store = Store {
        backend: model,
        dump: Box::new(move || looked_at.tables().clone()),
        keep: Box::new(()),
    };
    (Engine::new(Arc::clone(&store.backend)), World::new(store, clock))
}
