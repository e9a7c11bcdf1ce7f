//! `ff flow submit`: graphs from files, and what is refused.

use expect_test::expect;
use flowfabric::{Context, Error, FlowFabric, Result};
use serde_json::{Value, json};

use crate::graphs::node;
use crate::stage::{Said, Served, Stage, uuid};

/// What is offered to who sends no graph.
const LEAST: &str = concat!(
    r#"{"flow_kind":"order","nodes":["#,
    r#"{"name":"pay","execution_kind":"pay","lane_id":"shop"},"#,
    r#"{"name":"ship","execution_kind":"ship","lane_id":"shop"}],"#,
    r#""edges":[{"from":"pay","to":"ship"}]}"#
);

/// A graph of nodes that are called so, with these edges.
fn graph(names: &[&str], edges: &[(&str, &str)]) -> Value {
    let nodes: Vec<_> = names.iter().map(|name| node(name)).collect();
    let edges: Vec<_> = edges.iter().map(|(from, to)| json!({"from": from, "to": to})).collect();
    json!({"flow_kind": "order", "nodes": nodes, "edges": edges})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_created_once_from_a_file_or_from_standard_input() {
    let stage = Stage::new().await;
    let pay = graph(&["pay", "ship"], &[("pay", "ship")]).to_string();
    stage.write("order.json", &pay);
    let first = stage.ff(&["flow", "submit", "order.json", "--key", "k1"]);
    assert_eq!((first.code, first.err.as_str()), (Some(0), ""));
    let id = first.out.trim();
    let again = stage.ff_at(&stage.url(), &["flow", "submit", "-", "--key", "k1"], &pay);
    assert_eq!(again.out, first.out);
    let plain = |said: Said| Said { out: said.out.replace(id, "<id>"), ..said };
    let again = ["flow", "submit", "order.json", "--key", "k1", "-o"];
    plain(stage.ff(&[&again[..], &["table"]].concat())).is(&expect![[r#"
        existed already: <id>
        ff flow show <id> --url <url>
    "#]]);
    let read = stage.ff(&[&again[..], &["json"]].concat()).out;
    let read: Value = serde_json::from_str(&read).unwrap();
    assert_eq!((&read["status"], &read["flow_id"]), (&json!("duplicate"), &json!(id)));
    let ship = read["nodes"]["ship"].as_str().unwrap();
    assert!(stage.ff(&["show", ship]).out.contains("node ship"));
    stage.write("order.json", &graph(&["pay"], &[]).to_string());
    let other = stage.ff(&["flow", "submit", "order.json", "--key", "k1"]);
    let other = Said { err: other.err.replace(id, "<id>"), ..other };
    other.is(&expect![[r#"
        error: idempotency_key "k1" belongs to flow <id>, created with other content (nodes)
          code: idempotency_key_conflict
          next: Use a new key, or send the original content.
        exit 4
    "#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_graph_is_refused_by_name() {
    let stage = Stage::new().await;
    let served = Served::start(&stage, None);
    let refused = |graph: &str| {
        let submit = |url: &str| stage.ff_at(url, &["flow", "submit", "-"], graph);
        let (here, there) = (submit(&stage.url()), submit(&served.url));
        assert_eq!((&here.err, here.code), (&there.err, there.code));
        Said { err: here.err.replace(LEAST, "<least>"), ..here }
    };
    assert_eq!(stage.ff_at(&stage.url(), &["flow", "submit", "-"], LEAST).code, Some(0));
    // Which edge of a circle is named follows from the ids.
    let mut circle = graph(&["a", "b"], &[("a", "b"), ("b", "a")]);
    circle["flow_id"] = json!(uuid(7));
    refused(&circle.to_string()).is(&expect![[r#"
        error: the edge from a to b is part of a circle
          code: cycle_detected
          next: Remove one of the edges of the circle.
        exit 2
    "#]]);
    refused(&graph(&["a"], &[("a", "a")]).to_string()).is(&expect![[r#"
        error: node a waits for itself
          code: self_referencing_edge
          next: Name two different executions.
        exit 2
    "#]]);
    refused(&graph(&["a"], &[("a", "z")]).to_string()).is(&expect![[r#"
        error: there is no node z
          code: unknown_node
          next: Correct the name, or add the node.
        exit 2
    "#]]);
    refused(&graph(&["a", "a"], &[]).to_string()).is(&expect![[r#"
        error: node "a" is the name of two nodes
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    let mut greedy = graph(&["a", "b"], &[("a", "b")]);
    greedy["nodes"][1]["join"] = json!({"kind": "quorum", "k": 2});
    refused(&greedy.to_string()).is(&expect![[r#"
        error: node b waits for 2 of 1 edges
          code: quorum_too_large
          next: Lower k, or add edges.
        exit 2
    "#]]);
    refused(&graph(&["a", "b"], &[("a", "b"), ("a", "b")]).to_string()).is(&expect![[r#"
        error: two edges lead from a to b
          code: dependency_already_exists
          next: Use the edge that is there; the answer names it.
        exit 2
    "#]]);
    let mut lost = graph(&["a", "b"], &[("a", "b")]);
    lost["nodes"][1].as_object_mut().unwrap().remove("lane_id");
    refused(&lost.to_string()).is(&expect![[r#"
        error: standard input cannot be read: missing field `lane_id` at line 1 column 149 (nodes[1].lane_id)
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    let stranger = refused(r#"{"flow_kind": "order", "nodes": [], "more": 1}"#);
    assert!(stranger.err.contains("cannot be read: unknown field `more`"), "{}", stranger.err);
    refused("").is(&expect![[r#"
        error: standard input is not JSON: EOF while parsing a value at line 1 column 0
          code: invalid_input
          next: send <least>
        exit 2
    "#]]);
    refused(r#"{"flow_kind": "order", "nodes": [], "edges": ["#).is(&expect![[r#"
        error: standard input is not JSON: EOF while parsing a list at line 1 column 46
          code: invalid_input
          next: send <least>
        exit 2
    "#]]);
    refused(r#"{"flow_kind": "order"}"#).is(&expect![[r#"
        error: the graph has no nodes
          next: send <least>
        exit 2
    "#]]);
    refused(r#"{"flow_kind": "order", "nodes": []}"#).is(&expect![[r#"
        error: nodes must be at least one
          code: invalid_input
          next: Correct the field that the answer names.
        exit 2
    "#]]);
    stage.ff(&["flow", "submit", "gone.json"]).is(&expect![[r#"
        error: cannot read the graph from gone.json: No such file or directory (os error 2)
          next: name a file that is there, or - for standard input
        exit 2
    "#]]);
    assert_eq!(stage.ff(&["flow", "ls"]).out.lines().count(), 1, "nothing else was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_guide_shows_is_submitted_shown_and_cancelled() {
    let guide = include_str!("../../../../docs/guides/flows.md");
    let (_, section) = guide.split_once("## From the command line").unwrap();
    let order = section.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let stage = Stage::new().await;
    stage.write("order.json", order);
    let id = stage.ff(&["flow", "submit", "order.json", "--key", "order-7"]).out;
    let shown = stage.ff(&["flow", "show", id.trim()]).out;
    assert!(shown.contains("charge") && shown.contains("any of 2"), "{shown}");
    let cancelled = stage.ff(&["flow", "cancel", id.trim(), "--reason", "out of stock"]);
    assert_eq!((cancelled.code, cancelled.err.as_str()), (Some(0), ""));
}

async fn double(_: Context, number: u64) -> Result<u64> {
    if number == 0 {
        return Err(Error::permanent("nothing to double").into());
    }
    Ok(number * 2)
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_told_how_the_flow_ended() {
    let stage = Stage::new().await;
    let fabric = FlowFabric::open(&stage.url()).await.unwrap();
    let worker = fabric.worker("default").handle("double", double).start().unwrap();
    let graph = |first: u64| {
        let node = |name: &str, input: u64| {
            let (kind, lane) = ("double", "default");
            json!({"name": name, "execution_kind": kind, "lane_id": lane, "input": input})
        };
        let edges = json!([{"from": "a", "to": "b"}]);
        json!({"flow_kind": "twice", "nodes": [node("a", first), node("b", 1)], "edges": edges})
    };
    let submit = |first: u64, form: &str| {
        let key = first.to_string();
        let arguments = ["flow", "submit", "-", "--wait", "--key", &key, "-o", form];
        stage.ff_at(&stage.url(), &arguments, &graph(first).to_string())
    };
    let ids = [21, 0].map(|first| submit(first, "ids").out.trim().to_owned());
    let plain = |said: Said| {
        let hide =
            |text: &str| ids.iter().fold(text.to_owned(), |text, id| text.replace(id, "<id>"));
        let timeless = |line: &str| match line.split_once(" after ") {
            Some((how, rest)) => {
                format!("{how} after <time>: {}\n", rest.split_once(": ").unwrap().1)
            }
            None => format!("{line}\n"),
        };
        Said { out: hide(&said.out).lines().map(timeless).collect(), err: hide(&said.err), ..said }
    };
    plain(submit(21, "table")).is(&expect![[r#"
        completed after <time>: 2 completed
        existed already: <id>
    "#]]);
    plain(submit(0, "table")).is(&expect![[r#"
        failed after <time>: 1 failed, 1 skipped
        existed already: <id>
        error: flow <id> is failed
          next: ff flow show <id> --url <url>
        exit 6
    "#]]);
    plain(submit(0, "ids")).is(&expect![[r#"
        <id>
        error: flow <id> is failed
          next: ff flow show <id> --url <url>
        exit 6
    "#]]);
    let read: Value = serde_json::from_str(&submit(0, "json").out).unwrap();
    assert_eq!(read["flow"]["state"], "failed");
    assert_eq!(read["summary"]["members_skipped"], 1);
    worker.stop().await.unwrap();
    fabric.close().await;
}
