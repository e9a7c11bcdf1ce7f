//! Bounds: bodies, batches, time.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::site::{Site, ask, id};

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_announced_or_not() {
    let site = Site::with(|options| options.limits.body_bytes_max = 200).await;
    let new =
        |reason: &str| json!({"lane_id": "default", "execution_kind": "job", "input": reason});
    let refused = site.post("/v1/executions", new(&"x".repeat(200))).await;
    assert_eq!((refused.status, refused.code()), (413, "body_too_large"));
    assert_eq!(site.post("/v1/executions", new("x")).await.status, 201);
    let chunked = format!(
        "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\nff\r\n{}\r\n0\r\n\r\n",
        "x".repeat(255)
    );
    let refused = site.raw(&chunked).await;
    assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
    assert!(refused.contains("body_too_large"), "{refused}");
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_answered() {
    let site =
        Site::with(|options| options.limits.request_timeout = Duration::from_millis(5)).await;
    site.gate.shut();
    let body = json!({"lane_id": "default", "execution_kind": "job"});
    let refused = site.post("/v1/executions", body).await;
    assert_eq!((refused.status, refused.code()), (408, "request_timeout"));
    assert_eq!(refused.body["retryable"], true);
    // A wait is not counted.
    let waiting = site.get("/v1/events?wait_ms=20").await;
    assert_eq!((waiting.status, &waiting.body["events"]), (200, &json!([])));
}

#[tokio::test]
async fn a_list_is_neither_empty_nor_too_long() {
    let site = Site::open().await;
    let fence = json!({"attempt_index": 0, "lease_epoch": 1});
    let lease = json!({"execution_id": id(1), "fence": fence});
    let report = json!({"op": "release", "execution_id": id(1), "fence": fence});
    let new = json!({"lane_id": "default", "execution_kind": "job"});
    for (path, field, item) in [
        ("/v1/executions/batch", "executions", new),
        ("/v1/leases/renew", "leases", lease),
        ("/v1/reports", "reports", report),
    ] {
        for count in [0, 1_001] {
            let list = vec![item.clone(); count];
            let refused = site.post(path, json!({field: list})).await;
            assert_eq!((refused.status, refused.code()), (400, "invalid_input"), "{path}");
            assert_eq!(refused.body["field"], field);
        }
        assert_eq!(site.post(path, json!({field: [item]})).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn what_is_out_of_range_is_refused_by_field() {
    let site = Site::open().await;
    let claim = |field: &str, value: Value| {
        let mut ask = ask();
        ask[field] = value;
        ask
    };
    for (field, value, named) in [
        ("max", json!(0), "max"),
        ("max", json!(1_001), "max"),
        ("wait_ms", json!(60_001), "wait_ms"),
        ("lease_ttl_ms", json!(0), "lease_ttl_ms"),
        ("lanes", json!([]), "lanes"),
        ("lanes", json!(["é"]), "lane_id"),
        ("claim_id", json!("mine"), "claim_id"),
        ("capabilities", json!(["a b"]), "capabilities"),
        ("worker_id", json!(""), "worker_id"),
        ("max", json!("many"), "max"),
    ] {
        let refused = site.post("/v1/claims", claim(field, value)).await;
        assert_eq!((refused.status, &refused.body["field"]), (400, &json!(named)), "{refused:?}");
    }
    let ttl = json!({"leases": [{"execution_id": id(1), "fence": {"attempt_index": 0, "lease_epoch": 1}}],
                     "lease_ttl_ms": 1});
    let refused = site.post("/v1/leases/renew", ttl).await;
    assert_eq!((refused.status, &refused.body["field"]), (400, &json!("lease_ttl_ms")));
    for query in
        ["limit=0", "limit=1001", "limit=x", "state=gone", "tag=x", "after=x", "created_from=x"]
    {
        let refused = site.get(&format!("/v1/executions?{query}")).await;
        let field = query.split('=').next().unwrap();
        assert_eq!((refused.status, &refused.body["field"]), (400, &json!(field)), "{query}");
    }
}

#[tokio::test]
async fn a_payload_has_a_limit_of_its_own() {
    let site = Site::open().await;
    let body = json!({"lane_id": "default", "execution_kind": "job", "input": "x".repeat(1_000)});
    let refused = site.post("/v1/executions", body).await;
    assert_eq!((refused.status, refused.code()), (413, "payload_too_large"));
    assert_eq!(refused.body["detail"], "input is 1002 bytes long; at most 1000 are allowed");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_one_to_close() {
    let site = Site::with(|options| options.limits.connections_max = 1).await;
    let mut only = TcpStream::connect(&site.address).await.unwrap();
    only.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    only.read_exact(&mut [0; 15]).await.unwrap();
    let second = tokio::spawn(site.request(Method::GET, "/healthz").send());
    drop(only);
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
}
