//! Random histories on the model alone: whatever happens, its rows agree with each other.

use std::sync::Arc;

use ff_conformance::history::{Open, play};
use ff_conformance::{Dial, Dice, Model, Store};
use ff_core::Config;

fn model(clock: Arc<Dial>) -> Store {
    let model = Arc::new(Model::new(Config::default(), clock, Box::new(Dice::new(1))));
    let looked_at = Arc::clone(&model);
    let dump = Box::new(move || looked_at.tables().clone());
    Store { backend: model, dump, keep: Box::new(()) }
}

const STORES: [(&str, Open); 1] = [("model", |clock| (model(clock), None))];
/// Steps of one history; most steps are one to four commands.
const STEPS: u32 = 120;
/// Histories in each of the tests below.
const HISTORIES: u64 = 500;

async fn play_all(part: u64) {
    if let Ok(seed) = std::env::var("FF_SEED") {
        return play(seed.parse().expect("a number"), STEPS, &STORES).await;
    }
    for seed in part * HISTORIES..(part + 1) * HISTORIES {
        play(seed, STEPS, &STORES).await;
    }
}

#[tokio::test]
async fn part_1_agrees_with_itself() {
    play_all(0).await;
}

#[tokio::test]
async fn part_2_agrees_with_itself() {
    play_all(1).await;
}
