//! Building flows piece by piece: members, edges, joins, and what running members add.

use ff_core::{EdgeId, ExecutionId, FlowId};
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::flows::{edges, joining, node, submit};
use crate::site::{Site, flow_id, flow_path, id, member, path};

/// Creates an execution in the partition of a flow.
async fn create_for(site: &Site, flow: FlowId, number: u128) -> ExecutionId {
    let id = ExecutionId::for_flow(flow, Uuid::from_u128(number));
    let body = json!({"execution_id": id, "lane_id": "default", "execution_kind": "job"});
    assert_eq!(site.post("/v1/executions", body).await.status, 201);
    id
}

async fn put_policy(site: &Site, flow: FlowId, x: ExecutionId, policy: Value) -> Value {
    let path = flow_path(flow, &format!("/groups/{x}/policy"));
    let answer = site.ask(site.request(Method::PUT, &path).json(&policy)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[tokio::test]
async fn a_flow_is_built_piece_by_piece() {
    let site = Site::open().await;
    let flow = flow_id(1);
    let empty = site.post("/v1/flows", json!({"flow_id": flow, "flow_kind": "order"})).await;
    assert_eq!(empty.body, json!({"status": "created", "flow_id": flow, "nodes": {}}));
    let (a, b) = (create_for(&site, flow, 1).await, create_for(&site, flow, 2).await);
    let members = flow_path(flow, "/members");
    let added = site.post(&members, json!({"execution_id": a})).await;
    assert_eq!((added.status, added.body), (201, json!({"status": "added", "node_count": 1})));
    site.post(&members, json!({"execution_id": b})).await;
    let again = site.post(&members, json!({"execution_id": b})).await;
    let known = json!({"status": "already_member", "node_count": 2});
    assert_eq!((again.status, again.body), (200, known));

    let any = json!({"kind": "any_of", "on_satisfied": "let_run", "on_impossible": "run"});
    let set = put_policy(&site, flow, b, any.clone()).await;
    assert_eq!(set, json!({"status": "set"}));
    let again = put_policy(&site, flow, b, any.clone()).await;
    assert_eq!(again, json!({"status": "already_set"}));

    let stage = json!({"upstream_execution_id": a, "downstream_execution_id": b,
                       "name": "first", "expected_graph_revision": 2});
    let staged = site.post(&flow_path(flow, "/edges"), stage).await;
    let edge = EdgeId::between(flow, a, b);
    let written = json!({"status": "staged", "edge_id": edge, "graph_revision": 3});
    assert_eq!((staged.status, staged.body), (201, written));
    assert_eq!(site.get(&path(b, "/eligibility")).await.body, json!({"status": "eligible"}));
    let apply = json!({"edge_id": edge, "downstream_execution_id": b});
    let applied = site.post(&flow_path(flow, "/edges/apply"), apply.clone()).await;
    let counts = json!({"status": "applied", "unsatisfied_count": 1});
    assert_eq!((applied.status, applied.body), (200, counts));
    let again = site.post(&flow_path(flow, "/edges/apply"), apply).await;
    assert_eq!(again.body, json!({"status": "already_applied"}));
    let seen = site.get(&flow_path(flow, &format!("/edges/{edge}"))).await.body;
    assert_eq!(
        [&seen["edge_state"], &seen["upstream_execution_id"], &seen["name"]],
        [&json!("unsatisfied"), &json!(a), &json!("first")]
    );
    let group = site.get(&flow_path(flow, "")).await.body["edge_groups"][0].clone();
    assert_eq!((&group["policy"], &group["running_count"]), (&any, &json!(1)));

    let sealed = site.ask(site.request(Method::POST, &flow_path(flow, "/seal"))).await;
    assert_eq!(sealed.body, json!({"state": "open"}));
    site.finish(a, json!(1)).await;
    site.dispatch().await;
    site.finish(b, json!(2)).await;
    site.dispatch().await;
    let sealed = site.post(&flow_path(flow, "/seal"), json!({})).await;
    assert_eq!(sealed.body, json!({"state": "completed"}));
}

#[tokio::test]
async fn a_flow_that_is_not_sealed_grows_and_growing_twice_is_once() {
    let site = Site::open().await;
    let flow = flow_id(1);
    let body = json!({"flow_id": flow, "flow_kind": "order", "namespace": "shop", "seal": false,
                      "nodes": [node("a")]});
    site.post("/v1/flows", body).await;
    let a = member(flow, "a");
    let end = joining("end", json!({"kind": "any_of"}));
    let more = json!({"nodes": [node("b"), end], "seal": true,
                      "edges": [{"from": a, "to": "end"}, {"from": "b", "to": "end"}]});
    let extended = site.post(&flow_path(flow, "/extend"), more.clone()).await;
    let nodes = json!({"b": member(flow, "b"), "end": member(flow, "end")});
    let now = json!({"flow_id": flow, "graph_revision": 5, "node_count": 3, "nodes": nodes});
    assert_eq!((extended.status, &extended.body), (200, &now));
    let again = site.post(&flow_path(flow, "/extend"), more).await;
    assert_eq!((again.status, again.body), (200, now));
    let seen = site.get(&path(member(flow, "b"), "")).await.body;
    assert_eq!((&seen["namespace"], &seen["node"]), (&json!("shop"), &json!("b")));
    let sealed = site.post(&flow_path(flow, "/extend"), json!({"nodes": [node("c")]})).await;
    assert_eq!((sealed.status, sealed.code()), (409, "flow_sealed"));
    let open = json!({"flow_id": flow_id(2), "flow_kind": "order", "nodes": [node("a")],
                      "seal": false});
    site.post("/v1/flows", open).await;
    let more = json!({"nodes": [node("b")], "edges": edges(&[("b", "a")]),
                      "joins": [{"node": "a", "kind": "quorum", "k": 1}]});
    let first = site.post(&flow_path(flow_id(2), "/extend"), more.clone()).await;
    let second = site.post(&flow_path(flow_id(2), "/extend"), more).await;
    assert_eq!((second.status, &second.body), (200, &first.body));
}

#[tokio::test]
async fn a_running_member_adds_to_its_sealed_flow_and_waits_for_what_it_added() {
    let site = Site::open().await;
    let flow = flow_id(1);
    submit(&site, 1, &[node("parent")], &[]).await;
    let parent = member(flow, "parent");
    let claimed = site.claim().await;
    let by = json!({"execution_id": parent, "fence": claimed["fence"]});
    let more = json!({"nodes": [node("child")], "edges": edges(&[("child", "parent")]),
                      "by": by});
    let extended = site.post(&flow_path(flow, "/extend"), more).await;
    assert_eq!((extended.status, &extended.body["node_count"]), (200, &json!(2)));
    let wait = json!({"fence": claimed["fence"]});
    let waits = site.post(&path(parent, "/wait_children"), wait.clone()).await;
    assert_eq!((waits.status, waits.body), (200, json!({"status": "waiting"})));
    let again = json!({"fence": claimed["fence"], "flow_id": flow});
    let again = site.post(&path(parent, "/wait_children"), again).await;
    assert_eq!(again.body, json!({"status": "waiting"}));
    site.finish(member(flow, "child"), json!(7)).await;
    site.dispatch().await;
    let resumed = site.claim().await;
    assert_eq!((&resumed["kind"], &resumed["node"]), (&json!("resumed"), &json!("parent")));
    let ready = json!({"fence": resumed["fence"]});
    let ready = site.post(&path(parent, "/wait_children"), ready).await;
    assert_eq!(ready.body, json!({"status": "ready"}));
    let stale = site.post(&path(parent, "/wait_children"), wait).await;
    assert_eq!((stale.status, stale.code()), (409, "stale_lease"));
}

#[tokio::test]
async fn an_execution_outside_any_flow_becomes_the_root_of_one() {
    let site = Site::open().await;
    let (x, fence) = site.held(1).await;
    let ready = site.post(&path(x, "/wait_children"), json!({"fence": fence})).await;
    assert_eq!(ready.body, json!({"status": "ready"}));
    let flow = FlowId::rooted_at(x);
    let more = json!({"nodes": [node("child")], "edges": [{"from": "child", "to": x}],
                      "by": {"execution_id": x, "fence": fence}});
    let extended = site.post(&flow_path(flow, "/extend"), more).await;
    assert_eq!((extended.status, &extended.body["node_count"]), (200, &json!(2)));
    assert_eq!(site.get(&path(x, "")).await.body["flow_id"], json!(flow));
    let waits = site.post(&path(x, "/wait_children"), json!({"fence": fence})).await;
    assert_eq!(waits.body, json!({"status": "waiting"}));
    let gone = site.post(&path(id(2), "/wait_children"), json!({"fence": fence})).await;
    assert_eq!((gone.status, gone.code()), (404, "execution_not_found"));
}
