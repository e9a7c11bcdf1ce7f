//! `ff create`, `cancel`, `hold` and the like: what a person does.

use expect_test::expect;
use flowfabric::{Context, Error, FlowFabric, Result};

use crate::stage::{AGO_MS, Past, Said, Served, Stage, id, uuid};

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_is_created_with_all_that_was_said() {
    let stage = Stage::new().await;
    let said = "create greet --lane new --input {\"b\":1.10} --priority 7 --delay 1h30m --retries 2 \
                --tag shop.a=1 --tag shop.b=2";
    let made = stage.ff(&said.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>());
    assert_eq!((made.code, made.err.as_str()), (Some(0), ""));
    let id = made.out.trim();
    let shown = stage.ff(&["show", "-o", "json", id]);
    let history: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    let x = &history["snapshot"];
    assert_eq!(x["lane_id"], "new");
    assert_eq!(x["priority"], 7);
    assert_eq!(x["public_state"], "delayed");
    assert_eq!(x["tags"], serde_json::json!({"shop.a": "1", "shop.b": "2"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_creates_once() {
    let stage = Stage::new().await;
    let create = |input: &str, read: &str| {
        let arguments = ["create", "x", "--key", "k1", "--input", input, "-o", "json"];
        stage.ff_at(&stage.url(), &arguments, read)
    };
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let first = read(&create("[1, 2]", "").out);
    assert_eq!(first["duplicate"], false);
    std::fs::write(stage.file().with_file_name("input.json"), "[1,\n2]").unwrap();
    for again in [create("@input.json", ""), create("-", "[1,2]\n")] {
        let again = read(&again.out);
        assert_eq!(again["duplicate"], true);
        assert_eq!(again["execution_id"], first["execution_id"]);
    }
    let refused = create("[3]", "");
    let id = first["execution_id"].as_str().unwrap();
    let refused = Said { err: refused.err.replace(id, "<id>"), ..refused };
    refused.is(&expect![[r#"
        error: idempotency_key "k1" belongs to execution <id>, created with another input_payload
          code: idempotency_key_conflict
          next: Use a new key, or send the original content.
        exit 4
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_cancels_and_replays() {
    let stage = Stage::new().await;
    stage.ff(&["cancel", "00000005", "--reason", "too late"]).is(&expect![[r#"
        cancelled {fp:160}:01990000-0000-7000-8000-000000000005
    "#]]);
    stage.ff(&["replay", "00000003"]).is(&expect![[r#"
        replayed {fp:102}:01990000-0000-7000-8000-000000000003
    "#]]);
    stage.ff(&["cancel", "00000001"]).is(&expect![[r#"
        error: {fp:36}:01990000-0000-7000-8000-000000000001 has ended: success
          code: execution_not_active
          next: nobody works on it any more; ff replay runs it again
        exit 4
    "#]]);
    stage.ff(&["result", &uuid(5).to_string()]).is(&expect![[r#"
        error: {fp:160}:01990000-0000-7000-8000-000000000005 is cancelled: too late
          code: execution_not_successful
          next: ff show {fp:160}:01990000-0000-7000-8000-000000000005 --url <url>
        exit 6
    "#]]);
    stage.ff(&["result", &uuid(3).to_string()]).is(&expect![[r#"
        error: {fp:102}:01990000-0000-7000-8000-000000000003 is waiting: it has no result yet
          code: execution_not_terminal
          next: ff result {fp:102}:01990000-0000-7000-8000-000000000003 --wait --url <url>
        exit 4
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_holds_and_lets_go() {
    let stage = Stage::new().await;
    stage.ff(&["hold", "00000005", "--reason", "stock is counted"]).is(&expect![[r#"
        held {fp:160}:01990000-0000-7000-8000-000000000005
    "#]]);
    stage.ff(&["hold", "00000005"]).is(&expect![[r#"
        held {fp:160}:01990000-0000-7000-8000-000000000005
    "#]]);
    stage.ff(&["ls", "--lane", "mail", "--state", "waiting"]).is(&expect![[r#"
        {fp:160}:01990000-0000-7000-8000-000000000005	waiting	greet	mail	<moment>	held: stock is counted
    "#]]);
    stage.ff(&["lanes", "-o", "table"]).is(&expect![[r#"
        LANE    READY  OLDEST  WAITING  COMPLETED  FAILED  CANCELLED
        mail        0       -        1          0       0          1
        orders      0       -        0          2       1          0
    "#]]);
    stage.ff(&["unhold", "00000005"]).is(&expect![[r#"
        unheld {fp:160}:01990000-0000-7000-8000-000000000005
    "#]]);
    stage.ff(&["hold", "00000001"]).is(&expect![[r#"
        error: {fp:36}:01990000-0000-7000-8000-000000000001 is terminal, not waiting
          code: not_runnable
          next: Cancel or revoke what is running, resume what is suspended, replay what has ended.
        exit 4
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_takes_work_away_from_who_holds_it() {
    let stage = Stage::empty();
    let present = Past::open(&stage);
    present.clock.advance(AGO_MS);
    present.create(6, "mail", "greet", &serde_json::json!({"max_reclaim_count": 1})).await;
    let served = Served::start(&stage, None);
    let revoke = |url: &str| stage.ff_at(url, &["revoke", "00000006"], "");
    for (url, became) in [
        (stage.url(), "; another worker takes over"),
        (served.url.clone(), ", which failed: it was lost too often"),
    ] {
        present.claim("mail").await;
        let said = format!("revoked the lease of {}{became}\n", id(6));
        assert_eq!(revoke(&url).out, said);
    }
    revoke(&stage.url()).is(&expect![[r#"
        error: {fp:195}:01990000-0000-7000-8000-000000000006 has ended: failed
          code: execution_not_active
          next: nobody works on it any more; ff replay runs it again
        exit 4
    "#]]);
    let shown = stage.ff(&["show", "00000006"]).out;
    assert!(shown.contains("revoked on the command line"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_are_listed_and_one_that_will_not_come_back_is_dropped() {
    let stage = Stage::new().await;
    stage.ff(&["consumers", "-o", "table"]).is(&expect![[r#"
        no consumers
    "#]]);
    let past = Past::open(&stage);
    for name in ["audit", "a/../b"] {
        past.engine.consumer(name.parse().unwrap()).await.unwrap();
    }
    stage.ff(&["consumers", "-o", "table"]).is(&expect![[r#"
        CONSUMER  LAST HEARD OF
        a/../b    <moment>
        audit     <moment>
    "#]]);
    stage.ff(&["consumers"]).is(&expect![[r#"
        a/../b	<moment>
        audit	<moment>
    "#]]);
    stage.ff(&["consumers", "drop", "audit"]).is(&expect![[r#"
        dropped audit
    "#]]);
    let served = Served::start(&stage, None);
    let there = |arguments: &[&str]| stage.ff_at(&served.url, arguments, "");
    there(&["consumers", "-o", "ids"]).is(&expect![[r#"
        a/../b
    "#]]);
    there(&["consumers", "drop", "a/../b"]).is(&expect![[r#"
        dropped a/../b
    "#]]);
    there(&["consumers", "drop", "a/../b"]).is(&expect![[r#"
        error: there is no consumer a/../b
          code: consumer_not_found
          next: ff consumers lists those that there are
        exit 3
    "#]]);
    let refused = there(&["consumers", "drop", "a b"]);
    assert!(refused.err.contains("code: invalid_input"), "{}", refused.err);
    there(&["consumers", "-o", "json"]).is(&expect![[r#"
        {
          "consumers": [],
          "next": null
        }
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_changes_priorities_and_tags() {
    let stage = Stage::new().await;
    stage.ff(&["priority", "00000005", "70"]).is(&expect![[r#"
        priority 70 for {fp:160}:01990000-0000-7000-8000-000000000005
    "#]]);
    stage.ff(&["priority", "00000005", "-1"]).is(&expect![[r#"
        error: priority "-1" is out of range; use 0 to 9000
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    let tags = ["shop.a=1", "shop.b=x=y", "--remove", "shop.customer", "--remove", "shop.none"];
    stage.ff(&[&["tag", "00000005"][..], &tags].concat()).is(&expect![[r#"
        tagged {fp:160}:01990000-0000-7000-8000-000000000005
    "#]]);
    let shown = stage.ff(&["show", "-o", "json", &uuid(5).to_string()]);
    let x = &serde_json::from_str::<serde_json::Value>(&shown.out).unwrap()["snapshot"];
    assert_eq!(x["tags"], serde_json::json!({"shop.a": "1", "shop.b": "x=y"}));
    assert_eq!(x["priority"], 70);
    stage.ff(&["tag", "00000005", "--remove", "shop.b"]).is(&expect![[r#"
        tagged {fp:160}:01990000-0000-7000-8000-000000000005
    "#]]);
    let refused = stage.ff(&["tag", "00000005", "nodot=1"]);
    assert!(refused.err.contains("code: invalid_tag_key"), "{}", refused.err);
    stage.ff(&["tag", "00000005"]).is(&expect![[r#"
        error: the following required arguments were not provided:
          <KEY=VALUE>...

        Usage: ff tag --url <URL> <ID> <KEY=VALUE>...

        For more information, try '--help'.
        exit 2
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_can_do_the_same_over_a_server() {
    let stage = Stage::new().await;
    let served = Served::start(&stage, None);
    let id = stage.ff(&["ls", "--state", "waiting", "-o", "ids"]).out.trim().to_owned();
    let there = |arguments: &[&str]| stage.ff_at(&served.url, arguments, "");
    assert_eq!(there(&["hold", &id]).out, format!("held {id}\n"));
    assert_eq!(there(&["unhold", &id]).out, format!("unheld {id}\n"));
    assert_eq!(there(&["priority", &id, "3"]).out, format!("priority 3 for {id}\n"));
    assert_eq!(there(&["tag", &id, "shop.a=1"]).out, format!("tagged {id}\n"));
    let shown = stage.ff(&["show", &id]).out;
    for told in ["held: held on the command line", "let go", "priority 0 → 3", "shop.a=1"] {
        assert!(shown.contains(told), "{told:?} in {shown}");
    }
}

async fn double(_: Context, number: u64) -> Result<u64> {
    if number == 0 {
        return Err(Error::permanent("nothing to double").into());
    }
    Ok(number * 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_told_in_the_form_they_asked_for() {
    let stage = Stage::new().await;
    let fabric = FlowFabric::open(&stage.url()).await.unwrap();
    let worker = fabric.worker("default").handle("double", double).start().unwrap();
    let create = |number: &str, form: &str| {
        stage.ff(&["create", "double", "--input", number, "--key", number, "--wait", "-o", form])
    };
    let id = create("21", "ids").out.trim().to_owned();
    assert_eq!(stage.ff(&["result", &id]).out, "42\n");
    let plain = |said: Said, id: &str| Said {
        out: said.out.replace(id, "<id>"),
        err: said.err.replace(id, "<id>"),
        ..said
    };
    plain(create("21", "json"), &id).is(&expect![[r#"
        {
          "execution_id": "<id>",
          "duplicate": true,
          "public_state": "completed",
          "result": 42,
          "encoding": "json"
        }
    "#]]);
    plain(create("21", "table"), &id).is(&expect![[r#"
        42
        existed already: <id>
    "#]]);
    let id = create("0", "ids").out.trim().to_owned();
    plain(create("0", "ids"), &id).is(&expect![[r#"
        <id>
        error: <id> is failed: nothing to double
          code: execution_not_successful
          next: ff show <id> --url <url>
        exit 6
    "#]]);
    plain(create("0", "json"), &id).is(&expect![[r#"
        {
          "execution_id": "<id>",
          "duplicate": true,
          "public_state": "failed",
          "ended_because": "nothing to double"
        }
        error: <id> is failed: nothing to double
          code: execution_not_successful
          next: ff show <id> --url <url>
        exit 6
    "#]]);
    worker.stop().await.unwrap();
    fabric.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_id_that_is_printed_is_understood_again() {
    let stage = Stage::new().await;
    let served = Served::start(&stage, None);
    let ids = stage.ff(&["ls", "-o", "ids"]).out;
    let lines = stage.ff(&["ls"]).out;
    let table = stage.ff(&["ls", "-o", "table"]).out;
    let first = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
    };
    let uuids: Vec<String> = (1..=5).rev().map(|number| uuid(number).to_string()).collect();
    for printed in [first(&ids), first(&lines), first(&table)[1..].to_vec(), uuids] {
        for (printed, id) in printed.iter().zip(ids.lines()) {
            for url in [&stage.url(), &served.url] {
                let shown = stage.ff_at(url, &["show", "-o", "ids", printed], "");
                assert_eq!(shown.out.trim(), id, "{}", shown.err);
            }
        }
    }
}
