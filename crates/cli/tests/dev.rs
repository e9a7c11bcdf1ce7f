//! The README's first command, run as a user would.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::Command;

#[test]
fn the_show_ends_well_and_tells_what_was_stored() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", directory.path().join("dev.db").display());
    let output = Command::new(env!("CARGO_BIN_EXE_ff"))
        .args(["dev", "--count", "5", "--database", &url])
        .output()
        .unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    for told in [
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
        "was killed",
    ] {
        assert!(out.contains(told), "{told:?} is missing in\n{out}");
    }
    let db = rusqlite::Connection::open(directory.path().join("dev.db")).unwrap();
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("select count(*) from ff_exec_core where phase = 'terminal'"), 15);
    assert_eq!(count("select count(*) from ff_lease"), 0);
    assert_eq!(count("select count(*) from ff_ready"), 0);
}

#[test]
fn a_database_that_cannot_be_opened_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_ff"))
        .args(["dev", "--database", "mysql://somewhere"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("use sqlite:<path>"), "{}", text(&output.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
