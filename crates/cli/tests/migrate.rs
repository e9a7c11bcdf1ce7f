//! `ff migrate`, run as an operator would, on both kinds of database.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::Command;

use tokio_postgres::{Client, NoTls};

/// The migrations of a file, in order.
const OF_A_FILE: &[(u32, &str)] = &[
    (1, "executions"),
    (2, "flows"),
    (3, "suspensions"),
    (4, "result_digests"),
    (5, "step_outcomes"),
];
/// The migrations of a schema on PostgreSQL.
const OF_A_SCHEMA: &[(u32, &str)] = &[
    (1, "executions"),
    (2, "flows"),
    (3, "suspensions"),
    (4, "lean_rows"),
    (5, "leaner_rows"),
    (6, "lean_waits"),
    (7, "result_digests"),
    (8, "step_outcomes"),
];

/// Runs `ff migrate` and compares all it says; names of databases stand as `<database>`.
fn says(url: &str, options: &[&str], expected: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_ff"))
        .args(["migrate", "--url", url])
        .args(options)
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap().replace(url, "<database>");
    assert_eq!(format!("{said}{}\n", output.status), expected);
}

/// A line for each migration, and success.
fn all(word: &str, migrations: &[(u32, &str)]) -> String {
    let lines = migrations.iter().map(|(number, name)| format!("{word} {number} {name}\n"));
    lines.collect::<String>() + "exit status: 0\n"
}

fn newest(migrations: &[(u32, &str)]) -> u32 {
    migrations.last().expect("there are some").0
}

fn is_migrated(url: &str, migrations: &[(u32, &str)]) {
    let done = format!("up to date at version {}\nexit status: 0\n", newest(migrations));
    says(url, &[], &done);
    says(url, &["--dry-run"], &done);
}

fn says_what_is_missing(url: &str, migrations: &[(u32, &str)]) {
    says(url, &["--dry-run"], &all("missing", migrations));
}

fn applies_it(url: &str, migrations: &[(u32, &str)]) {
    says(url, &[], &all("applied", migrations));
}

fn is_refused(url: &str, migrations: &[(u32, &str)]) {
    let known = newest(migrations);
    let refusal = format!(
        "error: cannot look at the schema of <database>: the database has schema {}; this binary knows \
         {known}\n  code: schema_too_new\n  next: Run a binary at least as new as the one that migrated \
         it.\nexit status: 1\n",
        known + 1
    );
    says(url, &[], &refusal);
    says(url, &["--dry-run"], &refusal);
}

/// What a newer version would have left.
fn future(migrations: &[(u32, &str)]) -> String {
    let next = newest(migrations) + 1;
    format!("insert into refinery_schema_history values ({next}, 'future', '2099-01-01', '0')")
}

#[test]
fn a_file_is_brought_up_to_date_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fabric.db");
    let url = format!("sqlite:{}", path.display());
    says_what_is_missing(&url, OF_A_FILE);
    assert!(!path.exists(), "a dry run creates nothing");
    applies_it(&url, OF_A_FILE);
    is_migrated(&url, OF_A_FILE);
    let beside = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(beside, 1, "only the file is left");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute(&future(OF_A_FILE), []).unwrap();
    drop(db);
    is_refused(&url, OF_A_FILE);
}

#[test]
fn a_dry_run_leaves_an_empty_file_empty() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fabric.db");
    std::fs::write(&path, "").unwrap();
    says_what_is_missing(&format!("sqlite:{}", path.display()), OF_A_FILE);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[tokio::test]
async fn a_schema_on_postgres_is_brought_up_to_date_once() {
    let server = ff_cluster::shared().unwrap();
    let (db, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let schema = format!("migrate_{}", std::process::id());
    let url = format!("{server}?schema={schema}");
    says_what_is_missing(&url, OF_A_SCHEMA);
    assert!(!exists(&db, &schema).await, "a dry run creates nothing");
    applies_it(&url, OF_A_SCHEMA);
    is_migrated(&url, OF_A_SCHEMA);
    let future = future(OF_A_SCHEMA);
    db.batch_execute(&format!("set search_path = {schema}; {future}")).await.unwrap();
    is_refused(&url, OF_A_SCHEMA);
    db.batch_execute(&format!("drop schema {schema} cascade")).await.unwrap();
}

async fn exists(db: &Client, schema: &str) -> bool {
    let sql = "select exists (select from pg_namespace where nspname = $1)";
    db.query_one(sql, &[&schema]).await.unwrap().get(0)
}
