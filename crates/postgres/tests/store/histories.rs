//! Random histories end the same on the model, on SQLite and on Postgres.

use std::sync::Arc;

use ff_backend_postgres::Postgres;
use ff_backend_sqlite::Sqlite;
use ff_conformance::history::{Open, play};
use ff_conformance::{Dial, Dice, Model, Store};
use ff_core::{Backend, Config};

use crate::server::{self, Schema};

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

/// One schema, opened twice. Floors are not trusted: with several processes they make order approximate,
/// and here it is compared.
#[allow(clippy::needless_pass_by_value, reason = "as the others")]
fn twice(clock: Arc<Dial>) -> (Store, Option<Arc<dyn Backend>>) {
    let (schema, dice) = (Arc::new(Schema::empty()), Dice::new(1));
    let open = || {
        let mut options = schema.options(Arc::clone(&clock) as _, Box::new(dice.clone()));
        options.url.push_str("?connections=few");
        options.floors = false;
        Arc::new(server::wait(async move { Postgres::open(options).await.unwrap() }))
    };
    let (backend, second) = (open(), open());
    let dumped = Arc::clone(&schema);
    let dump = Box::new(move || crate::dump::dump(&dumped));
    (Store { backend, dump, keep: Box::new(schema) }, Some(second))
}

const STORES: [(&str, Open); 3] = [
    ("model", |clock| (model(clock), None)),
    ("sqlite", |clock| (sqlite(clock), None)),
    ("postgres", |clock| (crate::open_few(clock), None)),
];
const TWICE: [(&str, Open); 2] =
    [("model", |clock| (model(clock), None)), ("two processes", twice)];
/// Steps of one history; most steps are one to four commands.
const STEPS: u32 = 68;
/// Histories in each of the eight tests below; together 2,000.
const HISTORIES: u64 = 250;

async fn play_all(part: u64, stores: &[(&str, Open)]) {
    if let Ok(seed) = std::env::var("FF_SEED") {
        return play(seed.parse().unwrap(), STEPS, stores).await;
    }
    for seed in part * HISTORIES..(part + 1) * HISTORIES {
        play(seed, STEPS, stores).await;
    }
}

#[tokio::test]
async fn two_processes_agree_with_one() {
    play_all(0, &TWICE).await;
}

#[tokio::test]
async fn two_processes_agree_with_one_again() {
    play_all(1, &TWICE).await;
}

macro_rules! parts {
    ($($name:ident $part:literal)*) => {
        $(#[tokio::test]
        async fn $name() {
            play_all($part, &STORES).await;
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
