//! Batches that change more rows than one transaction should: the file has one writer, and everybody
//! else waits for it.

use std::path::Path;
use std::sync::Arc;

use ff_conformance::{Dial, World};
use ff_core::backend::Duty;
use rusqlite::Connection;

use crate::{open, path};

/// Members of each of two flows: together more than one transaction changes.
const MEMBERS: usize = 5_100;

/// How many transactions the log of the file holds: a frame that ends one says how large the file is.
fn commits(path: &Path) -> usize {
    let log = std::fs::read(path.with_extension("db-wal")).unwrap();
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let page = usize::try_from(word(8)).unwrap();
    let salt = [word(16), word(20)];
    let frames = (32..log.len()).step_by(24 + page).filter(|at| at + 24 <= log.len());
    frames.filter(|at| [word(at + 8), word(at + 12)] == salt && word(at + 4) > 0).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_changes_no_more_members_at_once_than_a_cancellation() {
    let clock = Arc::new(Dial::default());
    let w = World::new(open(Arc::clone(&clock)), clock);
    let edges: Vec<_> = (0..MEMBERS).map(|n| format!("a>m{n}")).collect();
    let edges = edges.join(" ");
    for _ in 0..2 {
        let drawn = w.sketch(&edges).submit().await;
        w.succeed(drawn.id("a")).await;
    }
    let directory = w.store.keep.downcast_ref::<tempfile::TempDir>().unwrap();
    let path = path(directory.path());
    // While somebody reads the file as it was, nothing of the log goes.
    let reader = Connection::open(&path).unwrap();
    let emptied = reader.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get(0));
    assert_eq!(emptied, Ok(0));
    reader.execute_batch("begin; select count(*) from ff_exec_core").unwrap();
    let due = w.due(Duty::CompletionDispatch, 10).await.commands;
    assert_eq!(due.len(), 2);
    let outcomes = w.batch(due).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(commits(&path), 2);
}
