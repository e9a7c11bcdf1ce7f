//! Random histories end the same on the model, on SQLite and on Postgres.

use std::sync::Arc;

use ff_backend_sqlite::Sqlite;
use ff_conformance::history::{Open, play};
use ff_conformance::{Dial, Dice, Model, Store};
use ff_core::Config;

fn model(clock: Arc<Dial>) -> Store {
    let model = Arc::new(Model::new(Config::default(), clock, Box::new(Dice::new(1))));
    let looked_at = Arc::clone(&model);
    let dump = Box::new(move || looked_at.tables().clone());
    Store { backend: model, dump, keep: Box::new(()) }
}

/// A file.
fn sqlite(clock: Arc<Dial>) -> Store {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = directory.path().join("fabric.db");
    let options = ff_backend_sqlite::Options {
        clock,
        entropy: Box::new(Dice::new(1)),
        ..ff_backend_sqlite::Options::new(path.clone())
    };
    let backend = Arc::new(Sqlite::open(options).unwrap());
    let dump = Box::new(move || crate::file::dump::dump(&path));
    Store { backend, dump, keep: Box::new(directory) }
}

const STORES: [(&str, Open); 3] =
    [("model", model), ("sqlite", sqlite), ("postgres", crate::open_few)];
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
