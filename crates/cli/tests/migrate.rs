//! `ff migrate`, run as an operator would, on both kinds of database.
#![allow(clippy::unwrap_used, missing_docs)]
#![allow(clippy::needless_raw_string_hashes, reason = "what UPDATE_EXPECT=1 writes")]

use std::process::Command;

use expect_test::{Expect, expect};
use tokio_postgres::{Client, NoTls};

/// Runs `ff migrate` and compares all it says; names of databases stand as `<database>`.
fn says(url: &str, options: &[&str], expected: &Expect) {
    let output = Command::new(env!("CARGO_BIN_EXE_ff"))
        .args(["migrate", "--url", url])
        .args(options)
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap().replace(url, "<database>");
    expected.assert_eq(&format!("{said}{}\n", output.status));
}

fn is_migrated(url: &str) {
    says(
        url,
        &[],
        &expect![[r#"
        up to date at version 3
        exit status: 0
    "#]],
    );
    says(
        url,
        &["--dry-run"],
        &expect![[r#"
        up to date at version 3
        exit status: 0
    "#]],
    );
}

fn says_what_is_missing(url: &str) {
    says(
        url,
        &["--dry-run"],
        &expect![[r#"
        missing 1 executions
        missing 2 flows
        missing 3 suspensions
        exit status: 0
    "#]],
    );
}

fn applies_it(url: &str) {
    says(
        url,
        &[],
        &expect![[r#"
        applied 1 executions
        applied 2 flows
        applied 3 suspensions
        exit status: 0
    "#]],
    );
}

fn is_refused(url: &str) {
    let refusal = expect![[r#"
        error: cannot look at the schema of <database>: the database has schema 4; this binary knows 3
          code: schema_too_new
          next: Run a binary at least as new as the one that migrated it.
        exit status: 1
    "#]];
    says(url, &[], &refusal);
    says(url, &["--dry-run"], &refusal);
}

/// What a newer version would have left.
const FUTURE: &str = "insert into refinery_schema_history values (4, 'future', '2099-01-01', '0')";

#[test]
fn a_file_is_brought_up_to_date_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fabric.db");
    let url = format!("sqlite:{}", path.display());
    says_what_is_missing(&url);
    assert!(!path.exists(), "a dry run creates nothing");
    applies_it(&url);
    is_migrated(&url);
    let beside = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(beside, 1, "only the file is left");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute(FUTURE, []).unwrap();
    drop(db);
    is_refused(&url);
}

#[test]
fn a_dry_run_leaves_an_empty_file_empty() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fabric.db");
    std::fs::write(&path, "").unwrap();
    says_what_is_missing(&format!("sqlite:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[tokio::test]
async fn a_schema_on_postgres_is_brought_up_to_date_once() {
    let server = ff_cluster::shared().unwrap();
    let (db, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let schema = format!("migrate_{}", std::process::id());
    let url = format!("{server}?schema={schema}");
    says_what_is_missing(&url);
    assert!(!exists(&db, &schema).await, "a dry run creates nothing");
    applies_it(&url);
    is_migrated(&url);
    db.batch_execute(&format!("set search_path = {schema}; {FUTURE}")).await.unwrap();
    is_refused(&url);
    db.batch_execute(&format!("drop schema {schema} cascade")).await.unwrap();
}

async fn exists(db: &Client, schema: &str) -> bool {
    let sql = "select exists (select from pg_namespace where nspname = $1)";
    db.query_one(sql, &[&schema]).await.unwrap().get(0)
}
