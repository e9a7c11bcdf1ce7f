//! The show, run as a user would.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::{Command, Output};

use tokio_postgres::NoTls;

/// What must be left of the show, and what must not.
const LEFT: [(&str, i64); 3] = [
    ("select count(*) from ff_exec_core where phase = 'terminal'", 22),
    ("select count(*) from ff_lease", 0),
    ("select count(*) from ff_ready", 0),
];

#[test]
fn the_show_ends_well_and_tells_what_was_stored() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("demo.db").display());
    show(&url, &url);
    let db = rusqlite::Connection::open(directory.path().join("demo.db")).unwrap();
    for (sql, count) in LEFT {
        assert_eq!(db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), count, "{sql}");
    }
}

#[tokio::test]
async fn the_show_ends_as_well_on_postgres() {
    let server = ff_cluster::shared().unwrap();
    let schema = format!("demo_{}", std::process::id());
    let url = format!("{server}?schema={schema}&password=secret");
    show(&url, &format!("{server}?schema={schema}&password=***"));
    let (db, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    db.batch_execute(&format!("set search_path = {schema}")).await.unwrap();
    for (sql, count) in LEFT {
        assert_eq!(db.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), count, "{sql}");
    }
    db.batch_execute(&format!("drop schema {schema} cascade")).await.unwrap();
}

/// Runs the show on a database, which is called by its name without its password.
fn show(url: &str, name: &str) {
    let output = ff(&["demo", "--count", "5", "--url", url]);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for told in [
        &format!("FlowFabric on {name}\n"),
        "5 executions completed at their first attempt",
        "attempt 1 (reclaim)",
        "the lease of doomed ran out",
        "attempt 2 (retry)",
        "ended failed: no route to host",
        "replayed after failed: the address was added",
        "ended failed: attempt_timeout",
        "ended expired: execution_deadline",
        "ended cancelled: nobody needs it any more",
        "ended cancelled: the customer changed her mind",
        "waits until somebody approves",
        "suspended: waiting for approval",
        "signal approved from ann: it goes on",
        "was killed",
        "A flow has ended: 5 completed, 1 cancelled.",
        "┼─▸ ✓ choose  2 of 3 ──▸ ✓ book",
        &format!("was read back from {name}\n"),
    ] {
        assert!(out.contains(told), "{told:?} is missing in\n{out}");
    }
    assert!(!out.contains("secret") && !err.contains("secret"), "a password is told: {out}{err}");
}

#[test]
fn a_database_that_cannot_be_opened_is_named_without_its_password() {
    for (url, told) in [
        ("mysql://ada:secret@somewhere", "use sqlite:<path>"),
        ("mysql://ada:secret@somewhere", "or postgres://user:password@host:port/database"),
        ("mysql://ada:secret@somewhere", "mysql://ada:***@somewhere"),
        // Nobody listens on this port.
        (
            "postgres://ada:secret@127.0.0.1:1/shop",
            "cannot open postgres://ada:***@127.0.0.1:1/shop",
        ),
        ("postgres://ada:secret@127.0.0.1:1/shop?schema=", "a schema name has 1 to 63 bytes"),
    ] {
        let output = ff(&["demo", "--url", url]);
        let err = text(&output.stderr);
        assert!(!output.status.success());
        assert!(err.contains(told), "{told:?} is missing in\n{err}");
        assert!(!err.contains("secret"), "a password is told: {err}");
    }
}

fn ff(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ff")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
