//! The life of a flow: its executions begin when those that they wait for have ended.

use ff_core::ExecutionId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::site::{Site, flow_id, flow_path, member, path};

/// A node in lane `default`.
pub fn node(name: &str) -> Value {
    json!({"name": name, "execution_kind": "job", "lane_id": "default"})
}

/// A node that joins in its own way.
pub fn joining(name: &str, join: Value) -> Value {
    let mut node = node(name);
    node["join"] = join;
    node
}

/// Edges by the names of their ends.
pub fn edges(ends: &[(&str, &str)]) -> Vec<Value> {
    ends.iter().map(|(from, to)| json!({"from": from, "to": to})).collect()
}

/// Submits a graph; all of it is new.
pub async fn submit(site: &Site, number: u128, nodes: &[Value], edges: &[Value]) {
    let body = json!({"flow_id": flow_id(number), "flow_kind": "order", "nodes": nodes,
                      "edges": edges});
    let answer = site.post("/v1/flows", body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[tokio::test]
async fn a_flow_is_submitted_worked_off_and_read() {
    let site = Site::open().await;
    let flow = flow_id(7);
    let [start, left, right, end] = ["start", "left", "right", "end"].map(|n| member(flow, n));
    let nodes = ["start", "left", "right", "end"].map(node);
    let mut edges = edges(&[("start", "left"), ("start", "right"), ("left", "end")]);
    edges.push(json!({"from": "right", "to": "end", "name": "from_right"}));
    edges[2]["name"] = json!("from_left");
    let body = json!({"flow_id": flow, "flow_kind": "order", "tags": {"shop.order": "7"},
                      "creator_identity": "ada", "nodes": nodes, "edges": edges});
    let created = site.post("/v1/flows", body.clone()).await;
    assert_eq!(
        (created.status, &created.headers["location"]),
        (201, &flow_path(flow, "").parse().unwrap(),)
    );
    let ids = json!({"start": start, "left": left, "right": right, "end": end});
    assert_eq!(created.body, json!({"status": "created", "flow_id": flow, "nodes": ids}));
    let again = site.post("/v1/flows", body).await;
    let duplicate = json!({"status": "duplicate", "flow_id": flow, "nodes": ids});
    assert_eq!((again.status, again.body), (200, duplicate));

    let waiting = site.get(&path(end, "")).await.body;
    assert_eq!(
        [&waiting["public_state"], &waiting["flow_id"], &waiting["node"]],
        [&json!("waiting_children"), &json!(flow), &json!("end")]
    );
    assert_eq!(waiting["creator_identity"], "ada");
    let inputs = site.get(&path(end, "/inputs")).await.body["inputs"].clone();
    assert_eq!(inputs["from_left"], json!({"execution_id": left, "edge_state": "unsatisfied"}));
    site.finish(start, json!(1)).await;
    let claimed = site.claim().await;
    assert_eq!((&claimed["flow_id"], &claimed["node"]), (&json!(flow), &json!("left")));
    let done = json!({"fence": claimed["fence"], "result": {"l": 2}});
    site.post(&path(left, "/complete"), done).await;
    site.dispatch().await;
    let summary = site.get(&flow_path(flow, "/summary")).await.body;
    assert_eq!(
        [&summary["total_members"], &summary["members_completed"], &summary["members_waiting"]],
        [&json!(4), &json!(2), &json!(1)]
    );
    let eligibility = site.get(&path(end, "/eligibility")).await.body;
    assert_eq!(eligibility, json!({"status": "blocked_by_dependencies"}));
    site.finish(right, json!("r")).await;
    site.dispatch().await;
    assert_eq!(site.get(&path(end, "/eligibility")).await.body, json!({"status": "eligible"}));
    let inputs = site.get(&path(end, "/inputs")).await.body;
    let input = |id: ExecutionId, result: Value| {
        let edge = "satisfied";
        json!({"execution_id": id, "edge_state": edge, "result": result, "encoding": "json"})
    };
    let (from_left, from_right) = (input(left, json!({"l": 2})), input(right, json!("r")));
    assert_eq!(inputs, json!({"inputs": {"from_left": from_left, "from_right": from_right}}));
    assert_eq!(site.get(&path(start, "/inputs")).await.body, json!({"inputs": {}}));
    site.finish(end, json!(null)).await;
    site.dispatch().await;

    let ended = site.get(&flow_path(flow, "")).await.body;
    assert_eq!(
        [&ended["state"], &ended["node_count"], &ended["ended"], &ended["tags"]],
        [
            &json!("completed"),
            &json!(4),
            &json!({"well": 4, "badly": 0}),
            &json!({"shop.order": "7"})
        ]
    );
    let group = &ended["edge_groups"].as_array().unwrap();
    assert_eq!(group.len(), 3);
    assert!(
        group.iter().all(|group| group["group_state"] == "satisfied"
            && group["policy"] == json!({"kind": "all_of"}))
    );
}

#[tokio::test]
async fn a_key_finds_the_original_and_its_ids() {
    let site = Site::open().await;
    let body = json!({"flow_kind": "order", "nodes": [node("a")], "dedup_window_ms": 1000});
    let keyed = |key: &'static str, body: &Value| {
        site.request(Method::POST, "/v1/flows").header("idempotency-key", key).json(body)
    };
    let first = site.ask(keyed("k", &body)).await;
    assert_eq!(first.status, 201);
    let second = site.ask(keyed("k", &body)).await;
    assert_eq!((second.status, &second.body["status"]), (200, &json!("duplicate")));
    assert_eq!(second.body["flow_id"], first.body["flow_id"]);
    assert_eq!(second.body["nodes"], first.body["nodes"]);
    let mut other = body.clone();
    other["seal"] = false.into();
    let clash = site.ask(keyed("k", &other)).await;
    assert_eq!((clash.status, clash.code()), (409, "idempotency_key_conflict"));
    assert_eq!(
        (&clash.body["field"], &clash.body["operation"]),
        (&json!("seal"), &json!("submit_flow"),)
    );
    other["idempotency_key"] = "j".into();
    let torn = site.ask(keyed("k", &other)).await;
    assert_eq!((torn.status, torn.code()), (400, "invalid_input"));
    site.clock.advance(1_000);
    assert_eq!(site.ask(keyed("k", &body)).await.status, 201);
}

#[tokio::test]
async fn a_result_becomes_the_input_of_what_waited_for_it() {
    let site = Site::open().await;
    let flow = flow_id(1);
    let mut edges = edges(&[("a", "b")]);
    edges[0]["data_passing_ref"] = "result".into();
    submit(&site, 1, &[node("a"), node("b")], &edges).await;
    site.finish(member(flow, "a"), json!({"sum": 3})).await;
    site.dispatch().await;
    let claimed = site.claim().await;
    assert_eq!((&claimed["node"], &claimed["input"]), (&json!("b"), &json!({"sum": 3})));
    let input = site.get(&path(member(flow, "b"), "/input")).await.body;
    assert_eq!(input, json!({"input": {"sum": 3}, "encoding": "json"}));
}

#[tokio::test]
async fn what_can_never_begin_is_skipped_and_says_so() {
    let site = Site::open().await;
    let flow = flow_id(1);
    let mut edges = edges(&[("a", "b"), ("a", "always"), ("a", "mend")]);
    edges[1]["dependency_kind"] = "any_terminal".into();
    edges[2]["dependency_kind"] = "failure_only".into();
    submit(&site, 1, &["a", "b", "always", "mend"].map(node), &edges).await;
    let claimed = site.claim().await;
    let fail = json!({"fence": claimed["fence"], "reason": "no", "class": "permanent"});
    site.post(&path(member(flow, "a"), "/fail"), fail).await;
    site.dispatch().await;
    let skipped = site.get("/v1/executions?state=skipped").await.body;
    assert_eq!(skipped["executions"][0]["node"], "b");
    assert_eq!(skipped["executions"].as_array().unwrap().len(), 1);
    let result = site.get(&path(member(flow, "b"), "/result")).await;
    assert_eq!((result.status, result.code()), (409, "execution_not_successful"));
    assert_eq!(result.body["standing"]["outcome"], "skipped");
    let gone = site.get(&path(member(flow, "b"), "/eligibility")).await.body;
    assert_eq!(gone, json!({"status": "terminal"}));
    for name in ["always", "mend"] {
        let waits = site.get(&path(member(flow, name), "")).await.body;
        assert_eq!(waits["public_state"], "waiting", "{name}");
    }
}

#[tokio::test]
async fn a_join_lets_go_when_enough_has_ended_and_cancels_the_rest() {
    let site = Site::open().await;
    let flow = flow_id(1);
    let end = joining("end", json!({"kind": "quorum", "k": 1}));
    let nodes = [node("a"), node("b"), end];
    submit(&site, 1, &nodes, &edges(&[("a", "end"), ("b", "end")])).await;
    let first = site.claim().await;
    let second = site.claim().await;
    let winner = path(member(flow, first["node"].as_str().unwrap()), "/complete");
    site.post(&winner, json!({"fence": first["fence"]})).await;
    site.dispatch().await;
    assert_eq!(site.claim().await["node"], "end");
    let leases = json!([{"execution_id": second["execution_id"], "fence": second["fence"]}]);
    let lost = site.post("/v1/leases/renew", json!({"leases": leases})).await.body;
    assert_eq!(lost["results"][0]["status"], "lost");
    let loser = member(flow, second["node"].as_str().unwrap());
    let loser = site.get(&path(loser, "")).await.body;
    assert_eq!(
        [&loser["public_state"], &loser["cancelled_by"], &loser["ended_because"]],
        [&json!("cancelled"), &json!("engine"), &json!("sibling_quorum_satisfied")]
    );
    let groups = site.get(&flow_path(flow, "")).await.body["edge_groups"].clone();
    assert_eq!(
        groups[0]["policy"],
        json!({"kind": "quorum", "k": 1, "on_satisfied": "cancel_remaining"})
    );
    assert_eq!(groups[0]["cancel_siblings_reason"], "sibling_quorum_satisfied");
}

#[tokio::test]
async fn a_summary_counts_what_was_spared_for_another_node() {
    let site = Site::open().await;
    let flow = flow_id(1);
    let end = joining("end", json!({"kind": "any_of"}));
    let nodes = [node("a"), node("b"), end, node("other")];
    submit(&site, 1, &nodes, &edges(&[("a", "end"), ("b", "end"), ("a", "other")])).await;
    let summary = flow_path(flow, "/summary");
    assert_eq!(site.get(&summary).await.body["spared_count"], 0);
    let claims = [site.claim().await, site.claim().await];
    let b = claims.iter().find(|claim| claim["node"] == "b").unwrap();
    site.post(&path(member(flow, "b"), "/complete"), json!({"fence": b["fence"]})).await;
    site.dispatch().await;
    let seen = site.get(&summary).await.body;
    assert_eq!([&seen["spared_count"], &seen["members_active"]], [&json!(1), &json!(1)]);
}

#[tokio::test]
async fn whoever_waits_for_a_flow_is_told_when_it_has_ended() {
    let site = Site::open().await;
    let flow = flow_id(1);
    submit(&site, 1, &[node("a")], &[]).await;
    let waiting = flow_path(flow, "?wait_ms=60000");
    let completing = async {
        site.in_flight(1).await;
        site.finish(member(flow, "a"), json!(1)).await;
        site.dispatch().await;
    };
    let (waited, ()) = tokio::join!(site.get(&waiting), completing);
    assert_eq!(waited.body["state"], "completed");
    let gone = site.get(&flow_path(flow_id(2), "?wait_ms=60000")).await;
    assert_eq!((gone.status, gone.code()), (404, "flow_not_found"));
}

#[tokio::test]
async fn a_replay_names_what_waits_for_it_again() {
    let site = Site::open().await;
    for (number, body, unskipped) in [
        (1, json!({}), json!([member(flow_id(1), "b"), member(flow_id(1), "c")])),
        (2, json!({"downstream": false}), json!(null)),
    ] {
        let flow = flow_id(number);
        let nodes = ["a", "b", "c"].map(node);
        submit(&site, number, &nodes, &edges(&[("a", "b"), ("b", "c")])).await;
        site.post(&path(member(flow, "a"), "/cancel"), json!({})).await;
        site.dispatch().await;
        let replayed = site.post(&path(member(flow, "a"), "/replay"), body).await;
        assert_eq!((replayed.status, &replayed.body["status"]), (200, &json!("replayed")));
        assert_eq!(replayed.body["unskipped"], unskipped);
        let behind = site.get(&path(member(flow, "c"), "")).await.body;
        let waits = if unskipped.is_null() { "skipped" } else { "waiting_children" };
        assert_eq!(behind["public_state"], waits);
    }
}

#[tokio::test]
async fn the_feed_tells_of_a_flow_and_of_its_members() {
    let site = Site::open().await;
    let flow = flow_id(1);
    let x = site.create(9).await;
    submit(&site, 1, &[node("a")], &[]).await;
    site.post(&path(x, "/cancel"), json!({})).await;
    site.finish(member(flow, "a"), json!(1)).await;
    site.dispatch().await;
    let told = site.get(&format!("/v1/events?flow_id={flow}")).await.body;
    let told = told["events"].as_array().unwrap();
    let kinds: Vec<_> = told.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["completion", "flow_ended"]);
    assert_eq!(
        (&told[0]["execution_id"], &told[0]["flow_id"]),
        (&json!(member(flow, "a")), &json!(flow),)
    );
    assert_eq!((&told[1]["state"], told[1].get("execution_id")), (&json!("completed"), None));
    let replayed = site.post(&path(member(flow, "a"), "/replay"), json!({})).await;
    assert_eq!(replayed.status, 200);
    let reopened = site.get("/v1/events?event=flow_reopened").await.body;
    assert_eq!(reopened["events"][0]["flow_id"], json!(flow));
    let history = site.get(&path(member(flow, "a"), "/history")).await.body;
    assert_eq!(history["snapshot"]["flow_id"], json!(flow));
}

#[tokio::test]
async fn tags_of_a_flow_are_set_and_removed_and_answered() {
    let site = Site::open().await;
    let body = json!({"flow_id": flow_id(1), "flow_kind": "order", "tags": {"shop.a": "1"}});
    site.post("/v1/flows", body).await;
    let edit = json!({"set": {"shop.b": "2"}, "remove": ["shop.a"]});
    let patch = site.request(Method::PATCH, &flow_path(flow_id(1), "/tags")).json(&edit);
    assert_eq!(site.ask(patch).await.body, json!({"tags": {"shop.b": "2"}}));
    let found = site.get("/v1/flows?tag=shop.b:2").await.body;
    assert_eq!(found["flows"][0]["flow_id"], json!(flow_id(1)));
}
