//! Running a server: what it is, how it is, what it counts.

use reqwest::Method;
use serde_json::json;

use crate::site::{Site, ask, path};

#[tokio::test]
async fn a_server_says_what_it_is() {
    let site = Site::open().await;
    let info = site.get("/v1/info").await.body;
    let now = 1_700_000_000_000_i64;
    let own = json!({"version": env!("CARGO_PKG_VERSION"), "backend": "model", "server_time": now});
    assert_eq!(info, own);
}

#[tokio::test]
async fn who_keeps_events_from_being_removed_is_listed_and_can_be_dropped() {
    let site = Site::open().await;
    for name in ["b", "a"] {
        site.engine.consumer(name.parse().unwrap()).await.unwrap();
        site.clock.advance(5);
    }
    let listed = site.get("/v1/consumers").await.body;
    let line = |name, at: i64| json!({"name": name, "acknowledged_at": 1_700_000_000_000 + at});
    assert_eq!(listed, json!({"consumers": [line("a", 5), line("b", 0)], "next": null}));
    let forget = |name: &str| site.post("/v1/consumers/drop", json!({"name": name}));
    assert_eq!(forget("a").await.body, json!({"name": "a"}));
    let again = forget("a").await;
    assert_eq!((again.status, again.code()), (404, "consumer_not_found"));
    let refused = forget("a b").await;
    assert_eq!((refused.status, refused.code()), (400, "invalid_input"));
    let left = json!({"consumers": [line("b", 0)], "next": null});
    assert_eq!(site.get("/v1/consumers").await.body, left);
}

#[tokio::test]
async fn every_consumer_is_listed_page_by_page() {
    let site = Site::open().await;
    let names: Vec<_> = (0..1_003).map(|n| format!("c{n:04}")).collect();
    for name in &names {
        site.engine.consumer(name.parse().unwrap()).await.unwrap();
    }
    let (mut listed, mut after) = (Vec::new(), String::new());
    loop {
        let page = site.get(&format!("/v1/consumers?limit=1000{after}")).await.body;
        let lines = page["consumers"].as_array().unwrap();
        listed.extend(lines.iter().map(|line| line["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        assert_eq!(listed.len(), 1_000);
        after = format!("&after={next}");
    }
    assert_eq!(listed, names);
    assert_eq!(site.get("/v1/consumers").await.body["consumers"].as_array().unwrap().len(), 100);
    for (query, field) in [("limit=0", "limit"), ("limit=1001", "limit"), ("after=a+b", "after")] {
        let refused = site.get(&format!("/v1/consumers?{query}")).await;
        assert_eq!((refused.status, refused.code()), (400, "invalid_input"));
        assert_eq!(refused.body["field"], field);
    }
}

#[tokio::test]
async fn lanes_say_how_much_waits_and_for_how_long() {
    let site = Site::open().await;
    site.create(1).await;
    site.clock.advance(700);
    site.create(2).await;
    site.create_with(3, json!({"lane_id": "later", "delay_ms": 10})).await;
    site.create_with(4, json!({"lane_id": "other"})).await;
    let lanes = site.get("/v1/lanes").await.body;
    let lane = |name: &str| {
        let lanes = lanes["lanes"].as_array().unwrap();
        lanes.iter().find(|lane| lane["lane_id"] == name).cloned()
    };
    let default = json!({"lane_id": "default", "waiting": 2, "waiting_capped": false,
                         "oldest_waiting_ms": 700});
    assert_eq!(lane("default"), Some(default));
    assert_eq!(lane("other").unwrap()["waiting"], 1);
    assert!(lane("later").is_none_or(|later| later["waiting"] == 0));
    let counts = site.get("/v1/counts").await.body;
    let delayed = json!({"lane_id": "later", "state": "delayed", "count": 1});
    assert!(counts["counts"].as_array().unwrap().contains(&delayed), "{counts}");
}

#[tokio::test]
async fn requests_are_counted_by_route_and_lanes_by_what_waits() {
    let site = Site::open().await;
    let x = site.create(1).await;
    site.clock.advance(1_500);
    site.get(&path(x, "")).await;
    site.get(&path(x, "/nothing")).await;
    site.ask(site.request(Method::POST, "/v1/claims").json(&json!({}))).await;
    let metrics = site.get("/metrics").await;
    let text = metrics.body.as_str().unwrap();
    for line in [
        "ff_http_requests_total{method=\"POST\",route=\"/v1/executions\",status=\"201\"} 1",
        "ff_http_requests_total{method=\"GET\",route=\"/v1/executions/{id}\",status=\"200\"} 1",
        "ff_http_requests_total{method=\"GET\",route=\"unknown\",status=\"404\"} 1",
        "ff_http_requests_total{method=\"POST\",route=\"/v1/claims\",status=\"400\"} 1",
        "ff_http_request_duration_seconds_count{route=\"/v1/executions/{id}\"} 1",
        "ff_http_requests_in_flight 1",
        "ff_lane_waiting{lane=\"default\"} 1",
        "ff_lane_oldest_seconds{lane=\"default\"} 1.5",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn what_waits_is_read_once_a_second_at_most() {
    let site = Site::open().await;
    site.create(1).await;
    let waiting = |metrics: crate::site::Answer| {
        let text = metrics.body.as_str().unwrap().to_owned();
        text.lines().find(|line| line.starts_with("ff_lane_waiting{")).map(str::to_owned)
    };
    let first = waiting(site.get("/metrics").await);
    site.create(2).await;
    assert_eq!(waiting(site.get("/metrics").await), first);
}

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let site = Site::open().await;
    for path in ["/healthz", "/v1/nothing", "/v1/executions?limit=0"] {
        let own = site.get(path).await.headers["x-request-id"].to_str().unwrap().to_owned();
        assert_eq!(own.len(), 36, "{own}");
    }
    let request = site.request(Method::POST, "/v1/claims").header("x-request-id", "mine");
    assert_eq!(site.ask(request.json(&ask())).await.headers["x-request-id"], "mine");
}
