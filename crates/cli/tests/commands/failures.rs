//! What goes wrong is told with its code, what to do next, and an exit code.

use expect_test::expect;

use crate::stage::{Stage, ff, finish, uuid};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_found() {
    let stage = Stage::new().await;
    stage.ff(&["show", &uuid(9).to_string()]).is(&expect![[r#"
        error: there is no execution {fp:44}:01990000-0000-7000-8000-000000000009
          code: execution_not_found
          next: ff ls --url <url>
        exit 3
    "#]]);
    stage.ff(&["cancel", "{fp:7}:nonsense"]).is(&expect![[r#"
        error: execution_id "{fp:7}:nonsense" has a tail "nonsense" that is not a UUID
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
}

#[test]
fn a_file_that_is_not_there_is_not_made_by_looking_at_it() {
    let stage = Stage::empty();
    stage.ff(&["ls"]).is(&expect![[r#"
        error: there is no FlowFabric in <url>
          next: make one: ff migrate --url <url>
        exit 3
    "#]]);
    stage.ff(&["create", "x"]).is(&expect![[r#"
        error: there is no FlowFabric in <url>
          next: make one: ff migrate --url <url>
        exit 3
    "#]]);
    assert!(!stage.file().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_wrongly_is_refused_by_name() {
    let stage = Stage::new().await;
    stage.ff(&["create", "x", "--input", "hello"]).is(&expect![[r#"
        error: the input is not JSON: expected value at line 1 column 1
          next: quote text twice: --input '"some text"'; or name a file: --input @order.json
        exit 2
    "#]]);
    stage.ff(&["create", "x", "--lane", ""]).is(&expect![[r#"
        error: lane_id must not be empty
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    stage.ff(&["create", "x", "--priority", "9001"]).is(&expect![[r#"
        error: priority "9001" is out of range; use 0 to 9000
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    let said = stage.ff(&["ls", "--state", "gone"]);
    let words = "waiting, delayed, waiting_children, active, suspended, completed, failed, ";
    assert!(
        said.err.contains(&format!("is none of {words}cancelled, expired, skipped\n")),
        "{}",
        said.err
    );
    assert!(said.err.contains("code: invalid_input"), "{}", said.err);
    assert_eq!(said.code, Some(2));
    stage.ff(&["ls", "--after", "here"]).is(&expect![[r#"
        error: after "here" is not a place in this listing; use one that it returned
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    stage.ff(&["create", "x", "--delay", "5"]).is(&expect![[r#"
        error: invalid value '5' for '--delay <TIME>': say it as 250ms, 90s, 5m, 1h30m or 2d

        For more information, try '--help'.
        exit 2
    "#]]);
}

#[test]
fn a_place_that_does_not_answer_can_be_tried_again() {
    let at = |url: &str| {
        let mut command = ff();
        command.args(["ls", "--url", url]);
        finish(command, "")
    };
    // Nobody listens on this port.
    at("http://127.0.0.1:1").is(&expect![[r#"
        error: cannot reach http://127.0.0.1:1: Connection refused (os error 111)
          code: transport
          next: start a server: ff serve --url sqlite:fabric.db; or name another place with --url
        exit 5
    "#]]);
    at("postgres://ada:secret@127.0.0.1:1/shop").is(&expect![[r#"
        error: cannot look at the schema of postgres://ada:***@127.0.0.1:1/shop: cannot connect to the database at 127.0.0.1:1: error connecting to server: Connection refused (os error 111)
          code: transport
          next: check that the database runs and that --url is right, then try again
        exit 5
    "#]]);
    at("mysql://ada:secret@somewhere").is(&expect![[r#"
        error: url "mysql://ada:***@somewhere" names no database: use sqlite:<path>, for example sqlite:fabric.db, or postgres://user:password@host:port/database?schema=name
          code: invalid_input
          next: or name a server: --url http://127.0.0.1:7100
        exit 2
    "#]]);
}

#[test]
fn commands_that_need_a_database_say_so() {
    for name in ["serve", "migrate"] {
        let mut command = ff();
        command.arg(name);
        let said = finish(command, "");
        assert_eq!(said.code, Some(2));
        assert!(
            said.err.contains(&format!("next: ff {name} --url sqlite:fabric.db")),
            "{}",
            said.err
        );
    }
}
