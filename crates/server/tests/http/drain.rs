//! Leaving in good order.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::site::{PATIENCE, Site, ask, path};

#[tokio::test]
async fn whatever_waits_is_answered_at_once_when_the_server_closes() {
    let mut site = Site::open().await;
    let x = site.create_with(1, json!({"lane_id": "other"})).await;
    let mut claim = ask();
    claim["wait_ms"] = 60_000.into();
    let asked = [
        site.request(Method::POST, "/v1/claims").json(&claim),
        site.request(Method::GET, &path(x, "?wait_ms=60000")),
        site.request(Method::GET, "/v1/events?wait_ms=60000"),
    ];
    let asked = asked.map(|request| tokio::spawn(request.send()));
    site.in_flight(3).await;
    site.stop();
    let mut answers = Vec::new();
    for answer in asked {
        let answer = answer.await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        answers.push(answer.json::<serde_json::Value>().await.unwrap());
    }
    assert_eq!(answers[0]["executions"], json!([]));
    assert_eq!(answers[1]["public_state"], "waiting");
    assert_eq!(answers[2], json!({"events": [], "next": "start"}));
    assert_eq!(site.left().await.cut_off, 0);
}

#[tokio::test]
async fn a_request_under_way_is_finished() {
    let mut site = Site::open().await;
    site.gate.shut();
    let body = json!({"lane_id": "default", "execution_kind": "job"});
    let creating = tokio::spawn(site.request(Method::POST, "/v1/executions").json(&body).send());
    site.in_flight(1).await;
    site.stop();
    site.gate.open();
    assert_eq!(creating.await.unwrap().unwrap().status(), 201);
    assert_eq!(site.left().await.cut_off, 0);
}

#[tokio::test]
async fn a_request_that_does_not_finish_in_time_is_cut_off() {
    let site = Site::with(|options| options.limits.drain_timeout = Duration::from_millis(1)).await;
    site.gate.shut();
    let body = json!({"lane_id": "default", "execution_kind": "job"});
    let creating = tokio::spawn(site.request(Method::POST, "/v1/executions").json(&body).send());
    site.in_flight(1).await;
    // The connection of the client's other requests may be cut off with it.
    assert!(site.left().await.cut_off >= 1);
    assert!(creating.await.unwrap().is_err());
}

#[tokio::test]
async fn a_server_that_is_about_to_go_says_so_and_still_serves() {
    let mut site = Site::with(|options| options.limits.drain_notice = PATIENCE).await;
    assert_eq!(site.get("/readyz").await.status, 200);
    site.stop();
    let told = async { while site.get("/readyz").await.status != 503 {} };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    let refused = site.get("/readyz").await;
    assert_eq!(refused.code(), "draining");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(site.get("/healthz").await.status, 200);
    assert_eq!(site.claim().await, json!(null));
}

#[tokio::test]
async fn a_server_that_has_left_accepts_nothing() {
    let site = Site::open().await;
    let request = site.request(Method::GET, "/healthz");
    assert_eq!(site.get("/healthz").await.status, 200);
    site.left().await;
    assert!(request.send().await.unwrap_err().is_connect());
}
