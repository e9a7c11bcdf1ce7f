//! The suite on the model.

use std::sync::Arc;

use ff_conformance::{Dial, Dice, Model, Store};
use ff_core::Config;

fn open(clock: Arc<Dial>) -> Store {
    let model = Arc::new(Model::new(Config::default(), clock, Box::new(Dice::new(1))));
    let looked_at = Arc::clone(&model);
    Store { backend: model, dump: Box::new(move || looked_at.tables().clone()), keep: Box::new(()) }
}

ff_conformance::suite!(crate::open);
