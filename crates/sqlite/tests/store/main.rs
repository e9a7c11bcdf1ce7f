//! Tests of the SQLite store: the suite, random histories, and what only a file can get wrong.
#![allow(clippy::unwrap_used, missing_docs)]

mod dump;
mod faults;
mod file;
mod flows;
mod histories;
mod races;
mod waits;
mod wide;

use std::path::Path;
use std::sync::Arc;

use ff_backend_sqlite::{Options, Sqlite};
use ff_conformance::{Dial, Dice, Store};

/// The file in a directory.
fn path(directory: &Path) -> std::path::PathBuf {
    directory.join("fabric.db")
}

/// A directory for a file: in memory where the system offers that, because these tests commit
/// a few hundred thousand times and none of them pulls the plug.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// An empty file on a dial.
fn open(clock: Arc<Dial>) -> Store {
    let directory = directory();
    let path = path(directory.path());
    let options = Options { clock, entropy: Box::new(Dice::new(1)), ..Options::new(path.clone()) };
    let backend = Arc::new(Sqlite::open(options).unwrap());
    Store { backend, dump: Box::new(move || dump::dump(&path)), keep: Box::new(directory) }
}

mod conformance {
    ff_conformance::suite!(crate::open);
}
