//! On a file with the settings that our store uses.

use std::path::Path;
use std::time::Instant;

use rusqlite::{Connection, params};

use super::{median, per_second};

/// Rows of a floor measurement.
const ROWS: u32 = 3_000;

fn open(path: &Path) -> anyhow::Result<Connection> {
    let db = Connection::open(path)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "full")?;
    db.execute_batch(
        "create table job (id integer primary key, state text not null, payload blob not null)",
    )?;
    Ok(db)
}

/// One-row inserts, each in its own commit. SQLite has one writer, so callers cannot help.
pub fn insert_each(path: &Path) -> anyhow::Result<f64> {
    let db = open(path)?;
    let mut insert = db.prepare("insert into job (state, payload) values ('new', ?1)")?;
    let begun = Instant::now();
    for _ in 0..ROWS {
        insert.execute([&[7_u8; 256][..]])?;
    }
    Ok(per_second(ROWS, begun))
}

/// Inserts of a hundred rows in each commit.
pub fn insert_hundreds(path: &Path) -> anyhow::Result<f64> {
    let db = open(path)?;
    let begun = Instant::now();
    fill(&db, ROWS * 10)?;
    Ok(per_second(ROWS * 10, begun))
}

fn fill(db: &Connection, rows: u32) -> anyhow::Result<()> {
    let mut insert = db.prepare("insert into job (state, payload) values ('new', ?1)")?;
    for _ in 0..rows / 100 {
        db.execute_batch("begin immediate")?;
        for _ in 0..100 {
            insert.execute([&[7_u8; 256][..]])?;
        }
        db.execute_batch("commit")?;
    }
    Ok(())
}

/// Pops of a hundred rows in each commit.
pub fn pop_hundreds(path: &Path) -> anyhow::Result<f64> {
    let db = open(path)?;
    let rows = ROWS * 5;
    fill(&db, rows)?;
    let mut pop = db.prepare(
        "delete from job where id in (select id from job order by id limit 100) returning id",
    )?;
    let begun = Instant::now();
    for _ in 0..rows / 100 {
        let popped = pop.query_map([], |row| row.get::<_, i64>(0))?.count();
        anyhow::ensure!(popped == 100, "a short pop");
    }
    Ok(per_second(rows, begun))
}

/// The time of three one-row commits in a row: insert, update, update; the median, in ms.
pub fn three_commits(path: &Path) -> anyhow::Result<f64> {
    let db = open(path)?;
    let mut insert = db.prepare("insert into job (id, state, payload) values (?1, 'new', ?2)")?;
    let mut update = db.prepare("update job set state = ?2 where id = ?1")?;
    let mut took = Vec::new();
    for id in 0..ROWS / 10 {
        let begun = Instant::now();
        insert.execute(params![id, &[7_u8; 256][..]])?;
        update.execute(params![id, "active"])?;
        update.execute(params![id, "done"])?;
        took.push(begun.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(median(took))
}
