//! Cancelling flows: what becomes of the members, and waiting for it.

use ff_core::limits::CANCEL_AT_ONCE_MAX;
use reqwest::Method;
use serde_json::{Value, json};

use crate::flows::{edges, node, submit};
use crate::site::{Answer, Site, flow_id, flow_path, member, path};

async fn cancel(site: &Site, query: &str, policy: &str) -> Answer {
    let body = json!({"cancellation_policy": policy, "reason": "late"});
    site.post(&flow_path(flow_id(1), &format!("/cancel{query}")), body).await
}

/// Two members that may begin, one of which runs, and one that waits for them.
async fn at_work(site: &Site) -> Value {
    let ends = edges(&[("a", "end"), ("b", "end")]);
    submit(site, 1, &["a", "b", "end"].map(node), &ends).await;
    site.claim().await
}

async fn states(site: &Site) -> Vec<String> {
    let mut states = Vec::new();
    for name in ["a", "b", "end"] {
        let seen = site.get(&path(member(flow_id(1), name), "")).await.body;
        states.push(seen["public_state"].as_str().unwrap().to_owned());
    }
    states
}

#[tokio::test]
async fn a_policy_says_what_becomes_of_the_members() {
    for (policy, word, count, after) in [
        ("cancel_all", "cancel_all", 3, ["cancelled", "cancelled", "cancelled"]),
        ("cancel_pending", "cancel_pending", 2, ["active", "cancelled", "cancelled"]),
        ("flow_only", "cancel_flow_only", 0, ["active", "waiting", "waiting_children"]),
    ] {
        let site = Site::open().await;
        let held = at_work(&site).await;
        let mut after = after;
        if held["node"] == "b" {
            after.swap(0, 1);
        }
        let done = cancel(&site, "", policy).await;
        assert_eq!(done.status, 200, "{done:?}");
        assert_eq!(
            [&done.body["status"], &done.body["cancellation_policy"], &done.body["reason"]],
            [&json!("cancelled"), &json!(word), &json!("late")]
        );
        assert_eq!(
            (&done.body["member_count"], &done.body["repeated"]),
            (&json!(count), &json!(false),)
        );
        assert_eq!(done.body["member_execution_ids"].as_array().unwrap().len(), count);
        assert_eq!(states(&site).await, after, "{policy}");
        let again = cancel(&site, "?wait=true", policy).await.body;
        assert_eq!(
            [&again["cancellation_policy"], &again["repeated"], &again["member_count"]],
            [&json!(word), &json!(true), &json!(3)]
        );
        let flow = site.get(&flow_path(flow_id(1), "")).await.body;
        assert_eq!(
            [&flow["state"], &flow["cancel_reason"], &flow["cancellation_policy"]],
            [&json!("cancelled"), &json!("late"), &json!(word)]
        );
        let told = site.get("/v1/events?event=flow_cancel_requested").await.body;
        assert_eq!(
            [&told["events"][0]["cancellation_policy"], &told["events"][0]["member_count"]],
            [&json!(word), &json!(count)]
        );
        // One that ends more is carried out, under the reason of the first.
        let more = cancel(&site, "?wait=true", "cancel_all").await.body;
        let repeated = count == 3;
        assert_eq!(
            [&more["cancellation_policy"], &more["repeated"], &more["member_count"]],
            [&json!("cancel_all"), &json!(repeated), &json!(if repeated { 3 } else { 3 - count })]
        );
        assert_eq!(more["reason"], "late");
        assert_eq!(states(&site).await, ["cancelled"; 3], "{policy}");
    }
}

#[tokio::test]
async fn a_reason_may_be_left_out() {
    let site = Site::open().await;
    submit(&site, 1, &[node("a")], &[]).await;
    let body = json!({"cancellation_policy": "cancel_all"});
    let done = site.post(&flow_path(flow_id(1), "/cancel?wait=false"), body).await;
    assert_eq!((done.status, &done.body["reason"]), (200, &json!("flow_cancelled")));
}

#[tokio::test]
async fn a_cancellation_that_waits_is_answered_when_the_server_closes() {
    let mut site = Site::open().await;
    submit(&site, 1, &[node("a")], &[]).await;
    site.gate.shut();
    let body = json!({"cancellation_policy": "cancel_all"});
    let request = site.request(Method::POST, &flow_path(flow_id(1), "/cancel?wait=true"));
    let waiting = tokio::spawn(request.json(&body).send());
    site.in_flight(1).await;
    site.stop();
    let answer = waiting.await.unwrap().unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.json::<Value>().await.unwrap()["code"], "draining");
}

/// A flow with more members than are cancelled at once.
async fn crowd(site: &Site) {
    let flow = flow_id(1);
    let body = json!({"flow_id": flow, "flow_kind": "order", "seal": false,
                      "nodes": [node("first")]});
    site.post("/v1/flows", body).await;
    let nodes: Vec<_> = (0..CANCEL_AT_ONCE_MAX).map(|n| node(&n.to_string())).collect();
    let extended = site.post(&flow_path(flow, "/extend"), json!({"nodes": nodes})).await;
    assert_eq!(extended.body["node_count"], CANCEL_AT_ONCE_MAX + 1);
}

#[tokio::test]
async fn the_members_of_a_crowded_flow_are_cancelled_one_part_after_the_other() {
    let site = Site::open().await;
    crowd(&site).await;
    let scheduled = cancel(&site, "", "cancel_all").await.body;
    assert_eq!(
        [&scheduled["status"], &scheduled["member_count"], &scheduled["repeated"]],
        [&json!("cancellation_scheduled"), &json!(CANCEL_AT_ONCE_MAX + 1), &json!(false)]
    );
    assert_eq!(scheduled["member_execution_ids"].as_array().unwrap().len(), 1_000);
    let late = cancel(&site, "?wait_ms=1", "cancel_all").await;
    assert_eq!((late.status, late.code()), (504, "timeout"));
    assert_eq!(
        (&late.body["retryable"], &late.body["operation"]),
        (&json!(true), &json!("cancel_flow"),)
    );
    let done = cancel(&site, "?wait=true", "cancel_all").await.body;
    assert_eq!(
        [&done["status"], &done["member_count"], &done["repeated"]],
        [&json!("cancelled"), &json!(CANCEL_AT_ONCE_MAX + 1), &json!(true)]
    );
    let summary = site.get(&flow_path(flow_id(1), "/summary")).await.body;
    assert_eq!(summary["members_cancelled"], CANCEL_AT_ONCE_MAX + 1);
}
