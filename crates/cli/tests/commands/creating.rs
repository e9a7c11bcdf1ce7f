//! `ff create`, `cancel` and `replay`: what a person does.

use expect_test::expect;

use crate::stage::{Said, Stage, uuid};

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
        cancelled 01990000-0000-7000-8000-000000000005
    "#]]);
    stage.ff(&["replay", "00000003"]).is(&expect![[r#"
        replayed 01990000-0000-7000-8000-000000000003
    "#]]);
    stage.ff(&["cancel", "00000001"]).is(&expect![[r#"
        error: {fp:36}:01990000-0000-7000-8000-000000000001 has ended: success
          code: execution_not_active
          next: nothing is left to cancel; ff replay runs it again
        exit 4
    "#]]);
    stage.ff(&["result", &uuid(5).to_string()]).is(&expect![[r#"
        error: 01990000-0000-7000-8000-000000000005 is cancelled: too late
          code: execution_not_successful
          next: ff show 01990000-0000-7000-8000-000000000005 --url <url>
        exit 6
    "#]]);
    stage.ff(&["result", &uuid(3).to_string()]).is(&expect![[r#"
        error: 01990000-0000-7000-8000-000000000003 is waiting: it has no result yet
          code: execution_not_terminal
          next: ff result 01990000-0000-7000-8000-000000000003 --wait --url <url>
        exit 4
    "#]]);
}
