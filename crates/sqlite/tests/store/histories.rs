//! Random histories end the same on the model, on SQLite, and on a file that two processes have open.

use std::sync::Arc;

use ff_backend_sqlite::{Options, Sqlite};
use ff_conformance::history::{Open, play};
use ff_conformance::{Dial, Dice, Model, Store};
use ff_core::{Backend, Config};

fn model(clock: Arc<Dial>) -> Store {
    let model = Arc::new(Model::new(Config::default(), clock, Box::new(Dice::new(1))));
    let looked_at = Arc::clone(&model);
    let dump = Box::new(move || looked_at.tables().clone());
    Store { backend: model, dump, keep: Box::new(()) }
}

/// The same file, opened twice.
#[allow(clippy::needless_pass_by_value, reason = "as the others")]
fn twice(clock: Arc<Dial>) -> (Store, Option<Arc<dyn Backend>>) {
    let (directory, dice) = (crate::directory(), Dice::new(1));
    let path = crate::path(directory.path());
    let open = || {
        let (clock, entropy) = (Arc::clone(&clock) as _, Box::new(dice.clone()));
        Arc::new(Sqlite::open(Options { clock, entropy, ..Options::new(path.clone()) }).unwrap())
    };
    let (backend, second) = (open(), open());
    let dumped = path.clone();
    let dump = Box::new(move || crate::dump::dump(&dumped));
    (Store { backend, dump, keep: Box::new(directory) }, Some(second))
}

const STORES: [(&str, Open); 3] = [
    ("model", |clock| (model(clock), None)),
    ("sqlite", |clock| (crate::open(clock), None)),
    ("two processes", twice),
];
/// Steps of one history; most steps are one to four commands.
const STEPS: u32 = 68;
/// Histories in each of the eight tests below; together 2,000.
const HISTORIES: u64 = 250;

async fn play_all(part: u64) {
    if let Ok(seed) = std::env::var("FF_SEED") {
        return play(seed.parse().unwrap(), STEPS, &STORES).await;
    }
    for seed in part * HISTORIES..(part + 1) * HISTORIES {
        play(seed, STEPS, &STORES).await;
    }
}

macro_rules! parts {
    ($($name:ident $part:literal)*) => {
        $(#[tokio::test]
        async fn $name() {
            play_all($part).await;
        })*
    };
}

parts! {
    part_1_agrees 0
    part_2_agrees 1
    part_3_agrees 2
    part_4_agrees 3
    part_5_agrees 4
    part_6_agrees 5
    part_7_agrees 6
    part_8_agrees 7
}
