//! `ff serve`: who is served, and how it leaves.

use std::process::Command;

use expect_test::expect;

use crate::stage::{Served, Stage, ff, finish};

#[test]
fn a_server_says_where_it_is_and_leaves_in_order() {
    let stage = Stage::empty();
    let mut served = Served::start(&stage, None);
    let said = served.said.replace(&served.url, "<server>").replace(&stage.url(), "<url>");
    expect![[r#"
        FlowFabric on <url> serves <server> (page <server>/, API <server>/docs)
    "#]]
    .assert_eq(&said);
    let made = stage.ff_at(&served.url, &["create", "greet"], "");
    assert_eq!(made.code, Some(0), "{}", made.err);
    let told = Command::new("kill").arg(served.process.id().to_string()).status().unwrap();
    assert!(told.success());
    assert!(served.process.wait().unwrap().success());
    let kept = stage.ff(&["ls", "-o", "ids"]);
    assert_eq!(kept.out, made.out, "what was created is in the file");
}

#[test]
fn a_server_with_a_token_serves_who_has_it() {
    let stage = Stage::empty();
    let served = Served::start(&stage, Some("s3cret"));
    stage.ff_at(&served.url, &["ls"], "").is(&expect![[r#"
        error: this route needs the token of the server
          code: unauthorized
          next: set FF_TOKEN to the token of the server
        exit 1
    "#]]);
    let mut command = ff();
    command.args(["create", "x", "--url", &served.url]).env("FF_TOKEN", "s3cret");
    assert_eq!(finish(command, "").code, Some(0));
    assert!(!served.said.contains("s3cret"));
}

#[test]
fn nobody_else_is_served_without_a_token() {
    let stage = Stage::empty();
    stage.ff(&["serve", "--listen", "0.0.0.0:0"]).is(&expect![[r#"
        error: others could reach 0.0.0.0:0, and there is no token to keep them out
          next: set FF_TOKEN, say to $(openssl rand -hex 32); or listen on 127.0.0.1
        exit 2
    "#]]);
    assert!(!stage.file().exists());
}

#[test]
fn an_address_that_is_taken_is_named() {
    let stage = Stage::empty();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = stage.ff(&["serve", "--listen", &address]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.starts_with(&format!("error: cannot listen on {address}")), "{}", said.err);
    assert!(said.err.contains("next: "), "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_on_postgres_is_a_place_as_well() {
    let server = ff_cluster::shared().unwrap();
    let schema = format!("commands_{}", std::process::id());
    let url = format!("{server}?schema={schema}");
    let stage = Stage::empty();
    let ff = |arguments: &[&str]| stage.ff_at(&url, arguments, "");
    ff(&["ls"]).is(&expect![[r#"
        error: there is no FlowFabric in <url>
          next: make one: ff migrate --url <url>
        exit 3
    "#]]);
    assert_eq!(ff(&["migrate"]).code, Some(0));
    let made = ff(&["create", "greet", "--input", "\"Ada\""]);
    assert_eq!(ff(&["ls", "-o", "ids"]).out, made.out);
    let id = made.out.trim();
    assert_eq!(ff(&["cancel", &id[24..]]).out, format!("cancelled {id}\n"));
    assert_eq!(ff(&["result", id]).code, Some(6));
    let (db, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    db.batch_execute(&format!("drop schema {schema} cascade")).await.unwrap();
}
